"""Deterministic training runs are bitwise identical for any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

STEPS = 4
COUNTS = (1, 2, 3, 4)

Feeds = dict[str, np.ndarray]


def lenet(images: int) -> tuple[Any, Feeds]:
    """Return the loss of convolutions followed by max pooling, and a batch."""
    x = layers.data("x", shape=[None, 1, 28, 28])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    h = layers.max_pool2d(layers.conv2d(x, filters=20, kernel=5), kernel=2)
    h = layers.max_pool2d(layers.conv2d(h, filters=50, kernel=5), kernel=2)
    h = layers.fc(layers.flatten(h), size=500, activation="relu")
    loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(h, size=10), label))
    return loss, {"x": noise(images, 1, 28, 28), "label": classes(images, 10)}


def batch_norms() -> tuple[Any, Feeds]:
    x = layers.data("x", shape=[None, 3, 16, 16])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    h = layers.batch_norm(layers.conv2d(x, filters=32, kernel=3, activation="relu"))
    h = layers.batch_norm(layers.conv2d(h, filters=80, kernel=3))
    h = layers.dropout(layers.avg_pool2d(h, kernel=2), 0.2)
    loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(h, size=10), label))
    return loss, {"x": noise(10, 3, 16, 16), "label": classes(10, 10)}


def many_weights() -> tuple[Any, Feeds]:
    """Return a convolution for which oneDNN divides the weights, since there are too few pixels."""
    x = layers.data("x", shape=[None, 128, 6, 6])
    h = layers.conv2d(x, filters=256, kernel=3, activation="relu")
    return layers.mean(layers.conv2d(h, filters=192, kernel=3)), {"x": noise(3, 128, 6, 6)}


def mlp() -> tuple[Any, Feeds]:
    x = layers.data("x", shape=[None, 784])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    h = layers.fc(layers.fc(x, size=400, activation="sigmoid"), size=300, activation="tanh")
    loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(h, size=10), label))
    return loss, {"x": noise(96, 784), "label": classes(96, 10)}


def recurrent() -> tuple[Any, Feeds]:
    """Return the loss of an unrolled LSTM whose steps share weights by name, and a batch."""
    x = layers.data("x", shape=[None, 6, 64])
    state = cell = None
    for step in range(6):
        now = layers.flatten(ow.ops.slice(x, axes=[1], starts=[step], ends=[step + 1]))
        joined = now if state is None else ow.ops.concat([now, state], axis=1)
        suffix = "first" if state is None else "next"
        gates = [
            layers.fc(
                joined,
                size=128,
                activation="tanh" if name == "value" else "sigmoid",
                param_attr=nn.ParamAttr(name=f"{name}_{suffix}"),
                bias=False,
            )
            for name in ("input", "value", "forget", "output")
        ]
        new = ow.ops.multiply(gates[0], gates[1])
        cell = new if cell is None else ow.ops.add(new, ow.ops.multiply(gates[2], cell))
        state = ow.ops.multiply(gates[3], ow.ops.tanh(cell))
    return layers.mean(layers.fc(state, size=40)), {"x": noise(72, 6, 64)}


def words() -> tuple[Any, Feeds]:
    index = layers.data("index", shape=[None, 40], dtype="int64")
    h = layers.embedding(index, size=[500, 96])
    h = layers.layer_norm(h, begin_norm_axis=2)
    h = ow.ops.softmax(ow.ops.matmul(h, h, transpose_y=True), axis=-1)
    loss = layers.mean(layers.fc(layers.flatten(h), size=30))
    return loss, {"index": classes(32, 500, 40)}


def sparse_words() -> tuple[Any, Feeds]:
    index = layers.data("index", shape=[None, 40], dtype="int64")
    h = layers.embedding(index, size=[500, 96], sparse=True)
    return layers.mean(ow.ops.square(h)), {"index": classes(320, 500, 40)}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def classes(n: int, count: int, width: int = 1) -> np.ndarray:
    return np.random.default_rng(4).integers(0, count, (n, width))


def train(
    build: Callable[[], tuple[Any, Feeds]], n_threads: int, optimizer: Any, **compiling: Any
) -> dict[str, bytes]:
    """Return the bytes of every parameter after some steps, and the bytes of the losses."""
    ow.set_num_threads(n_threads)
    with ow.program_guard(ow.Program(seed=5), ow.Program(seed=5)) as (main, startup):
        loss, feeds = build()
        optimizer.minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    step = network.compile(list(feeds), [loss], scope=scope, **compiling)
    losses = [step(**feeds)[0].tobytes() for _ in range(STEPS)]
    kept = {p.name: scope.find_var(p.name).numpy().tobytes() for p in main.parameters()}
    return {**kept, "losses": b"".join(losses)}


RUNS = {
    "lenet": (lambda: lenet(24), lambda: nn.optimizer.Adam(1e-3)),
    "lenet-of-few-images": (lambda: lenet(5), lambda: nn.optimizer.Adam(1e-3)),
    "batch-norm": (batch_norms, lambda: nn.optimizer.Momentum(0.01)),
    "many-weights": (many_weights, lambda: nn.optimizer.SGD(0.01)),
    "mlp": (mlp, lambda: nn.optimizer.SGD(0.1)),
    "recurrent": (recurrent, lambda: nn.optimizer.Adam(1e-3)),
    "embedding": (words, lambda: nn.optimizer.Adam(1e-3)),
    "sparse-embedding": (sparse_words, lambda: nn.optimizer.Adam(1e-3)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_deterministic_run_is_bitwise_identical_for_any_number_of_threads(name: str) -> None:
    build, make_optimizer = RUNS[name]
    first, *others = (train(build, count, make_optimizer(), deterministic=True) for count in COUNTS)
    for count, kept in zip(COUNTS[1:], others, strict=True):
        differing = [key for key in first if kept[key] != first[key]]
        assert differing == [], f"with {count} threads"
