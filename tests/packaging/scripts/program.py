"""Build a program with layers and an optimizer, and train it with a compiled step."""

import numpy as np

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
    x = layers.data("x", shape=[None, 1, 28, 28])
    y = layers.data("y", shape=[None, 1], dtype="int64")
    h = layers.max_pool2d(layers.conv2d(x, filters=20, kernel=5, activation="relu"), kernel=2)
    logits = layers.fc(layers.flatten(h), size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
    nn.optimizer.Adam(1e-3).minimize(loss)

scope = ow.Scope()
ow.Network(startup.global_block()).run(scope)
step = ow.Network(main.global_block()).compile(
    feed=["x", "y"], fetch=[loss], device="cpu", scope=scope
)
images = np.random.rand(32, 1, 28, 28).astype("float32")
labels = np.random.randint(0, 10, (32, 1))
(value,) = step(x=images, y=labels)
print(main)  # in readable form
