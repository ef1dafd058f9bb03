"""Save a checkpoint after each epoch, and resume training from the last one."""

import keras
import numpy as np
from keras import layers

(images, labels), (test_images, _) = keras.datasets.mnist.load_data()
images, test_images = images.reshape(-1, 784) / 255, test_images.reshape(-1, 784) / 255


def build():
    model = keras.Sequential()
    model.add(layers.Input([784]))
    model.add(layers.Dense(128, activation="relu"))
    model.add(layers.Dense(10))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    return model


def fit(epochs):
    model = build()
    saver = keras.callbacks.BackupAndRestore("checkpoints", delete_checkpoint=False)
    model.fit(images, labels, epochs=epochs, callbacks=[saver])
    return model


fit(epochs=2)  # or killed after an epoch
model = fit(epochs=4)  # trains two more
model.save("digits.keras")

other = keras.models.load_model("digits.keras")
same = np.array_equal(other.predict(test_images), model.predict(test_images))
print("loaded the same:", same)
