"""Small models that are trained on any device from identical initial values."""

from __future__ import annotations

from typing import Any

import numpy as np

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

Batch = tuple[Any, Any]

BATCH = 64


def digits_batches(n: int) -> list[Batch]:
    """Return n batches of handwritten digits, starting over after the last."""
    train, _ = nn.datasets.digits.load(seed=1)
    n_whole = len(train.labels) // BATCH
    places = [slice(i % n_whole * BATCH, (i % n_whole + 1) * BATCH) for i in range(n)]
    return [(train.images[place], train.labels[place]) for place in places]


def make_digits_model(device: str, drop: float = 0.0) -> tuple[nn.Model, Any]:
    """Return the model of ``examples/train_digits.py`` and its output probabilities."""
    model = nn.Model(device=device)
    hidden = model.fc_layer(input="img", size=200, bias=True, activation="sigmoid")
    if drop:
        hidden = model.dropout(hidden, drop)
    hidden = model.fc_layer(input=hidden, size=200, bias=True, activation="sigmoid")
    prob = model.fc_layer(input=hidden, size=10, bias=True, activation="softmax")
    loss = model.mean(input=model.cross_entropy(input=prob, label="label"))
    model.backward(loss)
    model.momentum(learning_rate=0.1)
    model.initialize_parameters(seed=1, img=digits_batches(1)[0][0])
    return model, prob


def train(model: nn.Model, batches: list[Batch]) -> list[float]:
    """Train on batches; return the loss of each step."""
    losses = []
    for images, labels in batches:
        model.fill("img", images)
        model.fill("label", labels)
        losses.append(model.run()[0].item())
    return losses


def parameters_of(model: nn.Model) -> dict[str, Any]:
    """Return copies of the parameters of a model by name."""
    return {p.name: model.scope.find_var(p.name).numpy() for p in model.parameters}


class ConvolutionStep:
    """A training step of a small convolutional network with batch normalization and Adam."""

    def __init__(self, device: str, precision: str = "float32") -> None:
        programs, policy = (ow.Program(), ow.Program()), nn.mixed_precision(precision)
        with ow.program_guard(*programs) as (main, startup), policy:
            x = layers.data("x", shape=[None, 1, 8, 8])
            y = layers.data("y", shape=[None, 1], dtype="int64")
            h = layers.conv2d(x, filters=6, kernel=3, paddings="same", bias=False)
            h = layers.batch_norm(h, activation="relu")
            h = layers.max_pool2d(h, kernel=2)
            h = layers.conv2d(h, filters=8, kernel=3, activation="relu")
            logits = layers.fc(layers.flatten(h), size=10)
            self.loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
            nn.optimizer.Adam(3e-3).minimize(self.loss)
        startup.seed = 3
        self.scope = ow.Scope()
        ow.Network(startup.global_block()).run(self.scope)
        self.network = ow.Network(main.global_block())
        self.call = self.network.compile(
            feed=["x", "y"], fetch=[self.loss], device=device, scope=self.scope
        )

    def train(self, batches: list[Batch]) -> list[float]:
        """Train on batches; return the loss of each step."""
        return [
            self.call(x=images.reshape(-1, 1, 8, 8), y=labels)[0].item()
            for images, labels in batches
        ]


def assert_same_losses(ours: list[float], reference: list[float], relative: float) -> None:
    """Compare the losses of two runs; they must decrease, so that the comparison is meaningful."""
    assert reference[-1] < reference[0]
    np.testing.assert_allclose(ours, reference, rtol=relative)
