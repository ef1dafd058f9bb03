"""LeNet (conv 20 5×5, max_pool 2, conv 50 5×5, max_pool 2, fc 500 relu, fc 10), and a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LEARNING_RATE = 1e-3
BATCH = 64
STEPS_TO_COMPARE = 5

# Weight [out, in, ...] and bias of each layer; the flattened images before fc 500 have 50·4·4
# columns.
SHAPES = ((20, 1, 5, 5), (50, 20, 5, 5), (500, 800), (10, 500))


def make_parameters() -> list[np.ndarray]:
    """Return weight [out, in, …] and bias [out] of each layer, float32."""
    rng = np.random.default_rng(17)
    arrays = []
    for shape in SHAPES:
        bound = np.sqrt(3.0 / np.prod(shape[1:]))
        arrays.append(rng.uniform(-bound, bound, shape).astype("float32"))
        arrays.append(rng.uniform(-0.1, 0.1, shape[0]).astype("float32"))
    return arrays


def make_batch(rank: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images float32 [64, 1, 28, 28] in [0, 1) and labels int64 [64, 1] for a rank."""
    rng = np.random.default_rng(18 + 100 * rank)
    return rng.random((BATCH, 1, 28, 28), dtype="float32"), rng.integers(0, 10, (BATCH, 1))


def make_opwright_step(average: Callable[[Any], Any] | None = None) -> tuple[Any, Any, Any]:
    """Return a program of layers with its training step, its scope, and its loss.

    `average` receives the pairs of parameters and gradients before the optimizer does.
    """
    import opwright as ow
    import opwright_nn as nn
    from opwright_nn import layers

    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", shape=[None, 1, 28, 28])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        h = layers.max_pool2d(layers.conv2d(x, filters=20, kernel=5), kernel=2)
        h = layers.max_pool2d(layers.conv2d(h, filters=50, kernel=5), kernel=2)
        h = layers.fc(layers.flatten(h), size=500, activation="relu")
        logits = layers.fc(h, size=10)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
        pairs = ow.append_backward([loss])
        adam = nn.optimizer.Adam(LEARNING_RATE)
        adam.apply_gradients(pairs if average is None else average(pairs))
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    for parameter, value in zip(main.parameters(), make_parameters(), strict=True):
        # The weight of fc is [in, out].
        scope.find_var(parameter.name).set(value.T.copy() if value.ndim == 2 else value)
    return main.global_block(), scope, loss
