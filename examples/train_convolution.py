"""Train a small convolutional network on handwritten digits, images of 8 x 8 pixels.

``python train_convolution.py`` prints the program, the loss after each epoch, and the accuracy on
held-out images.
"""

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
    x = layers.data("x", shape=[None, 1, 8, 8])
    y = layers.data("y", shape=[None, 1], dtype="int64")
    h = layers.conv2d(x, filters=16, kernel=3, paddings="same", activation="relu")
    h = layers.max_pool2d(h, kernel=2)
    h = layers.conv2d(h, filters=32, kernel=3, paddings="same", activation="relu")
    h = layers.max_pool2d(h, kernel=2)
    logits = layers.fc(layers.flatten(h), size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
    nn.optimizer.Adam(3e-3).minimize(loss)
print(main)

scope = ow.Scope()
ow.Network(startup.global_block()).run(scope)
step = ow.Network(main.global_block()).compile(
    feed=["x", "y"], fetch=[loss], device="cpu", scope=scope
)

train, test = nn.datasets.digits.load(seed=1)
for epoch in range(5):
    losses = [
        step(x=images.reshape(-1, 1, 8, 8), y=labels)[0].item()
        for images, labels in nn.batches(train, size=64, epochs=1, seed=epoch)
    ]
    print(f"epoch {epoch} loss {losses[-1]:.3f}")

# Prediction needs neither the loss nor the optimizer.
predict = ow.Network(main.prune([logits]).global_block()).compile(
    feed=["x"], fetch=[logits], scope=scope
)
(scores,) = predict(x=test.images.reshape(-1, 1, 8, 8))
print(f"accuracy {nn.metrics.accuracy(scores, test.labels):.3f}")
