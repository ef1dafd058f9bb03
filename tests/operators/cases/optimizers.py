"""Cases of sgd, momentum, adam and adamw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values

RATE = Values([0.1], "float32")


def sgd(param: Array, grad: Array, learning_rate: Array, weight_decay: float = 0.0) -> Array:
    return param - learning_rate[0] * (grad + weight_decay * param)


def momentum(
    param: Array,
    grad: Array,
    learning_rate: Array,
    velocity: Array,
    mu: float,
    nesterov: bool = False,
) -> tuple[Array, Array]:
    velocity = mu * velocity + grad
    step = grad + mu * velocity if nesterov else velocity
    return param - learning_rate[0] * step, velocity


def adamw(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_power: Array,
    beta2_power: Array,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[Array, ...]:
    """Algorithm 2 of Loshchilov and Hutter, line by line."""
    moment1 = beta1 * moment1 + (1 - beta1) * grad
    moment2 = beta2 * moment2 + (1 - beta2) * grad**2
    m, v = moment1 / (1 - beta1_power[0]), moment2 / (1 - beta2_power[0])
    param = param - learning_rate[0] * (m / (np.sqrt(v) + epsilon) + weight_decay * param)
    return param, moment1, moment2, beta1_power * beta1, beta2_power * beta2


def adam(**inputs: Any) -> tuple[Array, ...]:
    return adamw(**inputs, weight_decay=0.0)


def case(
    op: str,
    expected: Callable[..., Any],
    shape: tuple[int, ...],
    label: str,
    rate: Source = RATE,
    **attrs: Any,
) -> Case:
    inputs: dict[str, Source] = {
        "param": Random(shape),
        "grad": Random(shape),
        "learning_rate": rate,
    }
    if op == "momentum":
        inputs["velocity"] = Random(shape)
    if op in ("adam", "adamw"):
        inputs["moment1"], inputs["moment2"] = Random(shape), Random(shape, 0.0, 1.0)
        inputs["beta1_power"] = Values([0.9**3], "float32")
        inputs["beta2_power"] = Values([0.999**3], "float64")
    return Case(op, inputs, expected, attrs, label=label, magnitude=4.0, ulps=8)


VARIANTS: tuple[tuple[str, Callable[..., Any], str, dict[str, Any]], ...] = (
    ("sgd", sgd, "plain", {}),
    ("sgd", sgd, "decay", {"weight_decay": 0.5}),
    ("momentum", momentum, "plain", {"mu": 0.9}),
    ("momentum", momentum, "nesterov", {"mu": 0.9, "nesterov": True}),
    ("adam", adam, "plain", {}),
    ("adam", adam, "betas", {"beta1": 0.5, "beta2": 0.5, "epsilon": 0.1}),
    ("adamw", adamw, "plain", {}),
    ("adamw", adamw, "decay", {"weight_decay": 0.5}),
)

CASES = (
    case("sgd", sgd, (3,), "wide-rate", Values([0.1], "float64")),
    *(
        case(op, expected, shape, "-".join(("x".join(map(str, shape)) or "scalar", name)), **attrs)
        for op, expected, name, attrs in VARIANTS
        for shape in ((), (3, 4), *((n,) for n in LENGTHS))
    ),
)
