"""Decrease the learning rate, and stop when the validation loss no longer improves."""

import keras
from keras import layers

(images, labels), (test_images, test_labels) = keras.datasets.mnist.load_data()
images, test_images = images.reshape(-1, 784) / 255, test_images.reshape(-1, 784) / 255

model = keras.Sequential()
model.add(layers.Input([784]))
model.add(layers.Dense(128, activation="relu"))
model.add(layers.Dense(10))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
rate = keras.optimizers.schedules.CosineDecay(0.0, 1000, warmup_target=0.01, warmup_steps=50)
model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0), loss=loss, metrics=["accuracy"])

stop = keras.callbacks.EarlyStopping("val_loss", patience=3, restore_best_weights=True)
history = model.fit(
    images,
    labels,
    epochs=50,
    batch_size=64,
    validation_data=(test_images, test_labels),
    callbacks=[stop, keras.callbacks.CSVLogger("history.csv")],
)
print("epochs:", len(history.epoch), "accuracy:", max(history.history["val_accuracy"]))
