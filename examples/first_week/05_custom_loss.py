"""Train with a custom loss: the pinball loss, for quantiles."""

import numpy as np

import opwright as ow
import opwright_nn as nn

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, (2000, 1)).astype("float32")
y = (np.sin(x) + rng.normal(size=x.shape) * 0.3).astype("float32")
quantiles = np.array([0.1, 0.5, 0.9], "float32")


def pinball(out, y):
    error = y - out
    return model.mean(ow.ops.maximum(quantiles * error, (quantiles - 1) * error))


model = nn.Model()
h = model.fc_layer("x", size=64, activation="tanh")
out = model.fc_layer(h, size=3)
model.minimize(pinball(out, model.input("y", [None, 1])), nn.optimizer.Adam(0.01))

nn.train(model, (x, y), epochs=20, batch_size=64)
print("below each quantile:", (y < model.predict(out, x=x)).mean(axis=0))
