"""Regression on float64 arrays, NumPy's default."""

import numpy as np

import opwright_nn as nn

rng = np.random.default_rng(1)
x = rng.uniform(-2, 2, (2000, 3))
y = np.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:] + rng.normal(size=(2000, 1)) * 0.05

model = nn.Model(cast=True)
h = model.fc_layer(model.input("x", [None, 3]), size=64, activation="relu")
h = model.fc_layer(h, size=64, activation="relu")
out = model.fc_layer(h, size=1)
loss = model.mse(out, "y", reduction="mean")
model.minimize(loss, nn.optimizer.Adam(1e-2))
history = nn.train(
    model, (x[:1600], y[:1600]), epochs=20, validation=(x[1600:], y[1600:]), progress=False
)
error = np.abs(model.predict(out, x=x[1600:]) - y[1600:]).mean()
print("error:", round(float(error), 3))
