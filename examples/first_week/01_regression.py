"""Fit a regression, measure its error, predict."""

import numpy as np

import opwright_nn as nn

rng = np.random.default_rng(0)
x = rng.normal(size=(1000, 8)).astype("float32")
y = np.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]

model = nn.Model()
h = model.fc_layer("x", size=64, activation="relu")
h = model.fc_layer(h, size=64, activation="relu")
out = model.fc_layer(h, size=1)
model.minimize(model.mse(out, "y", reduction="mean"), nn.optimizer.Adam(0.01))

history = nn.train(model, (x[:800], y[:800]), epochs=30, validation=(x[800:], y[800:]))
print("error:", history["validation_loss"][-1])
print(model.predict(out, x=x[800:803]))
