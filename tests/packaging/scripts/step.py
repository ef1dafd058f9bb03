"""Train a small convolutional network for a few steps; print kernels, losses and libraries."""

from pathlib import Path

import numpy as np

import opwright as ow
import opwright_nn as nn

model = nn.Model()
hidden = model.conv2d(input="img", filters=4, kernel=3, activation="relu")
prob = model.fc_layer(input=model.flatten(hidden), size=10, bias=True, activation="softmax")
loss = model.mean(input=model.cross_entropy(input=prob, label="label"))
model.backward(loss)
model.sgd(learning_rate=0.1)
model.initialize_parameters(seed=1)

train, _ = nn.datasets.digits.load(seed=1)
model.fill("img", train.images[:64].reshape(64, 1, 8, 8))
model.fill("label", train.labels[:64])
losses = [float(model.run()[0]) for _ in range(3)]
assert losses[0] > losses[1] > losses[2], losses
assert np.isfinite(losses).all()

maps = Path("/proc/self/maps").read_text().split()
print(ow.__version__, nn.__version__)
print(*sorted({path for path in maps if ".so" in path}), sep="\n")
