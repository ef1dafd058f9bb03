"""Train on handwritten digits with a program of layers, an optimizer, and one compiled step."""

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
    x = layers.data("x", shape=[None, 64])
    y = layers.data("y", shape=[None, 1], dtype="int64")
    h = layers.fc(x, size=100, activation="relu")
    logits = layers.fc(h, size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
    nn.optimizer.Adam(1e-3).minimize(loss)

scope = ow.Scope()
ow.Network(startup.global_block()).run(scope)
step = ow.Network(main.global_block()).compile(
    feed=["x", "y"], fetch=[loss], device="cpu", scope=scope
)

train, test = nn.datasets.digits.load(seed=1)
for epoch in range(5):
    batches = nn.batches(train, size=64, epochs=1, seed=epoch)
    losses = [step(x=images, y=labels)[0].item() for images, labels in batches]
    print("epoch", epoch, "loss", losses[-1])

# Prediction needs neither the loss nor the optimizer.
predict = ow.Network(main.prune([logits]).global_block()).compile(
    feed=["x"], fetch=[logits], scope=scope
)
(scores,) = predict(x=test.images)
print("accuracy", nn.metrics.accuracy(scores, test.labels))
print(main)
