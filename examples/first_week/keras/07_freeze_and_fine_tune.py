"""Train on one task, then only a new head on another task, then all layers with a low rate."""

import keras
from keras import layers

(images, labels), (test_images, test_labels) = keras.datasets.mnist.load_data()
images, test_images = images.reshape(-1, 784) / 255, test_images.reshape(-1, 784) / 255
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

backbone = keras.Sequential()
backbone.add(layers.Input([784]))
backbone.add(layers.Dense(128, activation="relu"))

model = keras.Sequential([backbone, layers.Dense(10)])
model.compile(keras.optimizers.Adam(0.01), loss=loss)
model.fit(images, labels, epochs=5)
backbone.save("backbone.keras")

backbone = keras.models.load_model("backbone.keras")
model = keras.Sequential([backbone, layers.Dense(2)])  # even or odd
backbone.trainable = False
model.compile(keras.optimizers.Adam(0.01), loss=loss)
model.fit(images, labels % 2, epochs=3)

backbone.trainable = True
model.compile(keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])
model.fit(images, labels % 2, epochs=3)
_, accuracy = model.evaluate(test_images, test_labels % 2)
print("accuracy:", accuracy)
