"""Test cases of the activations."""

from __future__ import annotations

import math

import numpy as np
from case import Array, Case, Random
from cases.unary import ENDS, INF, NAN, each, elementwise, erf, integers

# Inputs far from 0, for which intermediate values must not overflow if the result is finite.
FAR = [-1e4, -60.0, -12.0, 0.0, 12.0, 60.0, 1e4]


def sigmoid(x: float) -> float:
    if x < -700:
        return math.exp(x)
    return 1 / (1 + math.exp(-x)) if x == x else x


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x))) if x == x else x


def silu(x: Array) -> Array:
    return x * each(sigmoid)(x)


def gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + each(math.tanh)(inner))
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * each(math.expm1)(np.minimum(x, 0)))


def leaky_relu(x: Array, alpha: float = 0.01) -> Array:
    return np.where(x > 0, x, alpha * x)


CASES = (
    *elementwise("relu", lambda x: np.where(x < 0, 0, x), ENDS, avoid=(0.0,)),
    integers("relu", lambda x: np.where(x < 0, 0, x)),
    *elementwise("sigmoid", each(sigmoid), [*FAR, INF, -INF, NAN]),
    *elementwise("tanh", each(math.tanh), [*FAR, INF, -INF, NAN]),
    *elementwise("softplus", each(softplus), [*FAR, INF, -INF, NAN]),
    Case(
        "softplus",
        {"x": Random((5,), avoid=(0.5,))},
        lambda x, **_: each(lambda x: x if 3 * x > 1.5 else softplus(3 * x) / 3)(x),
        {"beta": 3.0, "threshold": 1.5},
        label="steep",
    ),
    *elementwise("silu", silu, FAR, ulps=8),
    *elementwise("gelu", gelu, FAR, ulps=8, magnitude=1.0),
    *elementwise(
        "gelu",
        gelu,
        FAR,
        attrs={"approximate": "tanh"},
        label="tanh",
        ulps=16,
        magnitude=1.0,
    ),
    *elementwise("elu", elu, [*FAR, INF, -INF, NAN], avoid=(0.0,)),
    *elementwise("elu", elu, FAR, attrs={"alpha": 0.3}, label="flat", avoid=(0.0,)),
    *elementwise("leaky_relu", leaky_relu, [*FAR, INF, -INF, NAN], avoid=(0.0,)),
    *elementwise("leaky_relu", leaky_relu, FAR, attrs={"alpha": 0.0}, label="flat", avoid=(0.0,)),
)
