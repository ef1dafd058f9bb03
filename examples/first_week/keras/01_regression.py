"""Fit a regression, measure its error, predict."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
x = rng.normal(size=(1000, 8)).astype("float32")
y = np.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]

model = keras.Sequential()
model.add(layers.Input([8]))
model.add(layers.Dense(64, activation="relu"))
model.add(layers.Dense(64, activation="relu"))
model.add(layers.Dense(1))
model.compile(keras.optimizers.Adam(0.01), loss="mse")

history = model.fit(x[:800], y[:800], epochs=30, validation_data=(x[800:], y[800:]))
print("error:", history.history["val_loss"][-1])
print(model.predict(x[800:803]))
