"""Save a network, load it without its code, and call it from several threads."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
from keras import layers

(images, labels), (test_images, test_labels) = keras.datasets.mnist.load_data()
images, test_images = images.reshape(-1, 784) / 255, test_images.reshape(-1, 784) / 255

model = keras.Sequential()
model.add(layers.Input([784]))
model.add(layers.Dense(128, activation="relu"))
model.add(layers.Dense(10, activation="softmax"))
model.compile(keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy")
model.fit(images, labels, epochs=5)
model.save("served.keras")

loaded = keras.models.load_model("served.keras")


def answer(image):
    prob = loaded(image[None], training=False)
    return keras.ops.convert_to_numpy(prob).argmax()


with ThreadPoolExecutor(4) as pool:
    classes = list(pool.map(answer, test_images))
print("accuracy:", np.mean(np.array(classes) == test_labels))
