"""Layers on a program, Adam, and one compiled training step.

    python examples/layers_and_adam.py

The script builds the programs explicitly, instead of using `Model`.
"""

from __future__ import annotations

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers


def main() -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", shape=[None, 1, 8, 8])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        h = layers.fc(layers.flatten(x), size=128, activation="relu")
        h = layers.dropout(h, probability=0.2)
        logits = layers.fc(h, size=10)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
        nn.optimizer.Adam(1e-3).minimize(loss)

    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = ow.Network(main.global_block()).compile(
        feed=["x", "y"], fetch=[loss], device="cpu", scope=scope
    )
    train, test = nn.datasets.digits.load(seed=1)
    losses = [
        step(x=images.reshape(-1, 1, 8, 8), y=labels)[0].item()
        for images, labels in nn.batches(train, size=64, epochs=20, seed=1, progress=True)
    ]
    print(f"loss {losses[-1]:.3f}")

    inference = nn.inference_program(main, logits)
    scores = ow.Network(inference.global_block()).compile(["x"], [logits], scope=scope)
    (found,) = scores(x=test.images.reshape(-1, 1, 8, 8))
    print(f"accuracy on held-out images: {nn.metrics.accuracy(found, test.labels):.3f}")
    print(main)  # human-readable


if __name__ == "__main__":
    main()
