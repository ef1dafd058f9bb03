"""Classify images with convolutions, batch normalization and dropout."""

import keras
from keras import layers

(images, labels), (test_images, test_labels) = keras.datasets.mnist.load_data()
images, test_images = images[..., None] / 255, test_images[..., None] / 255

model = keras.Sequential()
model.add(layers.Input([28, 28, 1]))
model.add(layers.Conv2D(32, 3, padding="same"))
model.add(layers.BatchNormalization())
model.add(layers.ReLU())
model.add(layers.Conv2D(64, 3, padding="same"))
model.add(layers.BatchNormalization())
model.add(layers.ReLU())
model.add(layers.MaxPooling2D(2))
model.add(layers.Flatten())
model.add(layers.Dropout(0.5))
model.add(layers.Dense(10))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])

history = model.fit(
    images, labels, epochs=5, batch_size=64, validation_data=(test_images, test_labels)
)
model.summary()
print("accuracy:", history.history["val_accuracy"][-1])
