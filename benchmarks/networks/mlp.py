"""Parameters and a batch for 784-200-200-10 with sigmoid and softmax, for all implementations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

SIZES = (784, 200, 200, 10)
LEARNING_RATE = 0.1
STEPS_TO_COMPARE = 20

Arrays = list[np.ndarray]


def make_parameters() -> Arrays:
    """Return w [in, out] and b [out] of each layer, float32."""
    rng = np.random.default_rng(7)
    arrays: Arrays = []
    for fan_in, fan_out in pairwise(SIZES):
        bound = np.sqrt(6.0 / (fan_in + fan_out))
        arrays.append(rng.uniform(-bound, bound, (fan_in, fan_out)).astype("float32"))
        arrays.append(np.zeros(fan_out, "float32"))
    return arrays


def make_batch(size: int, rank: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images float32 [size, 784] in [0, 1) and labels int64 [size, 1] for a rank."""
    rng = np.random.default_rng(8 + 100 * rank)
    images = rng.random((size, SIZES[0]), dtype="float32")
    return images, rng.integers(0, SIZES[-1], (size, 1))


def make_opwright_model(batch: int, device: str = "cpu") -> tuple[Any, Any]:
    """Return the network as an opwright_nn.Model with its training step, and its loss."""
    import opwright_nn as nn

    model = nn.Model(device=device)
    hidden = model.fc_layer(input="img", size=SIZES[1], bias=True, activation="sigmoid")
    hidden = model.fc_layer(input=hidden, size=SIZES[2], bias=True, activation="sigmoid")
    prob = model.fc_layer(input=hidden, size=SIZES[3], bias=True, activation="softmax")
    loss = model.mean(input=model.cross_entropy(input=prob, label="label"))
    model.backward(loss)
    model.sgd(learning_rate=LEARNING_RATE)
    model.initialize_parameters(img=make_batch(batch)[0])
    for parameter, value in zip(model.parameters, make_parameters(), strict=True):
        model.scope.find_var(parameter.name).set(value)
    return model, loss


def make_opwright_step(average: Callable[[Any], Any] | None = None) -> tuple[Any, Any, Any]:
    """Return a program of layers with its training step, its scope, and its loss.

    `average` receives the pairs of parameters and gradients before the optimizer does.
    """
    import opwright as ow
    import opwright_nn as nn
    from opwright_nn import layers

    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", shape=[None, SIZES[0]])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        hidden = layers.fc(x, size=SIZES[1], activation="sigmoid")
        hidden = layers.fc(hidden, size=SIZES[2], activation="sigmoid")
        logits = layers.fc(hidden, size=SIZES[3])
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
        pairs = ow.append_backward([loss])
        sgd = nn.optimizer.SGD(LEARNING_RATE)
        sgd.apply_gradients(pairs if average is None else average(pairs))
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    for parameter, value in zip(main.parameters(), make_parameters(), strict=True):
        scope.find_var(parameter.name).set(value)
    return main.global_block(), scope, loss
