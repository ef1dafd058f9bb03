"""Defines the work during which allocations fail.

Each function returns a callable that repeats the work and returns its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

Work = Callable[[], list[np.ndarray]]

_RNG = np.random.default_rng(7)
_IMAGES = _RNG.standard_normal((4, 3, 10, 10)).astype("float32")
_LABELS = _RNG.integers(0, 5, (4, 1))


def _build() -> tuple[ow.Program, ow.Scope, Any]:
    """Return a program that trains a convolution and matrix products, its scope and its loss."""
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        x = layers.data("x", shape=[None, 3, 10, 10])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        h = layers.conv2d(x, filters=8, kernel=3, activation="relu")
        loss = layers.softmax_with_cross_entropy(layers.fc(layers.flatten(h), size=5), label)
        loss = layers.mean(loss)
        nn.optimizer.SGD(0.0).minimize(loss)  # with rate 0, every call returns the same
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    return main, scope, loss


def _forget_kernels() -> None:
    ow.current_context().prepared.clear()


def lower() -> Work:
    """Choose and prepare every kernel of a training step, and run it once."""
    main, scope, loss = _build()

    def work() -> list[np.ndarray]:
        _forget_kernels()
        step = ow.Network(main.global_block()).compile(["x", "label"], [loss], scope=scope)
        return list(step(x=_IMAGES, label=_LABELS))

    return work


def run() -> Work:
    """Rerun a compiled training step."""
    main, scope, loss = _build()
    step = ow.Network(main.global_block()).compile(["x", "label"], [loss], scope=scope)
    return lambda: list(step(x=_IMAGES, label=_LABELS))


def product() -> Work:
    """Multiply matrices of a size for which oneDNN is used."""
    x = _RNG.standard_normal((96, 200)).astype("float32")
    y = _RNG.standard_normal((200, 120)).astype("float32")
    operator = ow.Operator("matmul", x="x", y="y", out="out")

    def work() -> list[np.ndarray]:
        _forget_kernels()
        network = ow.Network([operator])
        (out,) = network.compile(["x", "y"], ["out"])(x=x, y=y)
        # If oneDNN runs out of memory, no other kernel may be used, since BLAS may terminate the
        # process.
        return [out, np.array("onednn" in str(network.placement()))]

    return work


SCENARIOS: dict[str, Callable[[], Work]] = {
    "lower": lower,
    "run": run,
    "product": product,
}
