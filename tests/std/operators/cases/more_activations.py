"""Test cases of the activations in kinks.py, smooth.py and prelu.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import FLOATS, WIDE, Array, Case, Random
from cases.activations import FAR, sigmoid, softplus
from cases.gradient_formulas import far, formula_case, kinked
from cases.unary import INF, NAN, each, elementwise

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934, 1.6732632423543772848
LIMITS = [*FAR, INF, -INF, NAN]


def hard_sigmoid(x: Array, alpha: float = 0.2, beta: float = 0.5) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


def hard_swish(x: Array) -> Array:
    return np.where(x <= -3, 0, x * np.clip(x + 3, 0, 6) / 6)


def hard_shrink(x: Array, threshold: float = 0.5) -> Array:
    return np.where(np.abs(x) <= threshold, 0, x)


def soft_shrink(x: Array, threshold: float = 0.5) -> Array:
    return np.where(np.abs(x) <= threshold, 0, x - np.copysign(threshold, x))


def thresholded_relu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x <= alpha, 0, x)


def softsign(x: float) -> float:
    return math.copysign(1, x) if math.isinf(x) else x / (1 + abs(x))


def mish(x: float) -> float:
    return 0.0 if x == -INF else x * math.tanh(softplus(x))


def selu(x: Array) -> Array:
    return np.where(x > 0, SELU_SCALE * x, SELU_SCALE * SELU_ALPHA * np.expm1(np.minimum(x, 0)))


def celu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def swish(x: Array, beta: float = 1.0) -> Array:
    return np.where(x == -INF, 0, x * each(sigmoid)(beta * x))


def stanh(x: Array, scale_a: float = 0.67, scale_b: float = 1.7159) -> Array:
    return scale_b * np.tanh(scale_a * x)


def soft_relu(x: Array, threshold: float = 40.0) -> Array:
    return each(softplus)(np.clip(x, -threshold, threshold))


def prelu(x: Array, weight: Array) -> Array:
    return np.where(x > 0, x, weight * x)


def prelu_gradients(x: Array, weight: Array, out_grad: Array) -> tuple[Array, Array]:
    of_weight = np.where(x > 0, 0, x * out_grad)
    return np.where(x > 0, out_grad, weight * out_grad), of_weight


# ---- derivatives at single points ----------------------------------------------------------------


def log_sigmoid_derivative(x: float) -> float:
    return sigmoid(-x)


def mish_derivative(x: float) -> float:
    if x < -700:
        return 0.0 if x < -745 else (1 + x) * math.exp(x)
    if x > 40:
        return 1.0
    n = math.exp(x)
    w = n * (n + 2)
    return w / (w + 2) + 4 * x * n * (n + 1) / (w + 2) ** 2


def stanh_derivative(x: float) -> float:
    if abs(x) > 1e3:
        return 0.0
    return 0.67 * 1.7159 / math.cosh(0.67 * x) ** 2


def both_ways(out_grad: Any, flat: Array, derivative: Any = 1.0) -> Array:
    return np.where(flat, 0, derivative * out_grad)


TAILS = [-80.0, -15.0, -1.0, 0.0, 1.0, 15.0, 80.0]
CASES = (
    *elementwise("relu6", lambda x: np.clip(x, 0, 6), LIMITS, avoid=(0.0, 6.0), low=-3, high=9),
    *elementwise(
        "hard_sigmoid", hard_sigmoid, LIMITS, low=-4, high=4, avoid=(-2.5, 2.5), magnitude=1.0
    ),
    *elementwise(
        "hard_sigmoid",
        hard_sigmoid,
        LIMITS,
        attrs={"alpha": 1 / 6, "beta": 0.5},
        label="sixth",
        low=-4,
        high=4,
        avoid=(-3.0, 3.0),
        magnitude=1.0,
    ),
    *elementwise("hard_swish", hard_swish, LIMITS, low=-4, high=4, avoid=(-3.0, 3.0), magnitude=1),
    *elementwise("hard_shrink", hard_shrink, LIMITS, avoid=(-0.5, 0.5)),
    *elementwise("hard_shrink", hard_shrink, LIMITS, attrs={"threshold": 0.0}, label="none"),
    *elementwise("soft_shrink", soft_shrink, LIMITS, avoid=(-0.5, 0.5), magnitude=1.0),
    *elementwise("thresholded_relu", thresholded_relu, LIMITS, avoid=(1.0,)),
    *elementwise("log_sigmoid", each(lambda x: -softplus(-x)), LIMITS),
    *elementwise("softsign", each(softsign), LIMITS),
    *elementwise("mish", each(mish), LIMITS, ulps=8),
    *elementwise("tanh_shrink", lambda x: x - np.tanh(x), FAR, magnitude=1.0),
    *elementwise("selu", selu, LIMITS, avoid=(0.0,)),
    *elementwise("celu", celu, LIMITS, avoid=(0.0,)),
    *elementwise("celu", celu, FAR, attrs={"alpha": 0.5}, label="half", avoid=(0.0,)),
    *elementwise("swish", swish, LIMITS, ulps=8),
    *elementwise("swish", swish, FAR, attrs={"beta": 2.0}, label="steep", ulps=8),
    *elementwise("stanh", stanh, LIMITS),
    *elementwise("soft_relu", soft_relu, LIMITS, ulps=8),
    *elementwise(
        "soft_relu", soft_relu, FAR, attrs={"threshold": 1.5}, label="low", avoid=(-1.5, 1.5)
    ),
    *(
        Case(
            "prelu",
            {"x": Random(x, avoid=(0.0,)), "weight": Random(weight)},
            prelu,
            dtypes=FLOATS,
            label=label,
        )
        for label, x, weight in (
            ("one", (2, 9), (1,)),
            ("channels", (2, 3, 4), (3, 1)),
            ("each", (2, 17), (2, 17)),
            ("scalar", (), ()),
            ("empty", (0, 3), (3,)),
        )
    ),
    # Kinks.
    *kinked("relu6", lambda x, out_grad: both_ways(out_grad, (x <= 0) | (x >= 6))),
    *kinked(
        "hard_sigmoid",
        lambda x, out_grad, alpha, beta: both_ways(out_grad, (x <= -1) | (x >= 1), alpha),
        alpha=0.5,
        beta=0.5,
    ),
    *kinked(
        "hard_shrink",
        lambda x, out_grad, threshold: both_ways(out_grad, np.abs(x) <= 0.5),
        threshold=0.5,
    ),
    *kinked(
        "soft_shrink",
        lambda x, out_grad, threshold: both_ways(out_grad, np.abs(x) <= 0.5),
        threshold=0.5,
    ),
    *kinked(
        "thresholded_relu", lambda x, out_grad, alpha: both_ways(out_grad, x <= 0.5), alpha=0.5
    ),
    *(
        formula_case(
            "hard_swish",
            {"x": [-INF, -4.0, -3.0, 3.0, 4.0, INF, NAN]},
            lambda x, out_grad: np.where(np.isnan(x), NAN, np.where(x <= -3, 0, out_grad)),
            f"ends-{g}",
            out_grad=g,
        )
        for g in (1.0, INF)
    ),
    formula_case(
        "soft_relu",
        {"x": [-INF, -50.0, -41.0, 41.0, INF]},
        lambda x, out_grad, **attrs: np.zeros_like(x),
        "beyond-out-grad-inf",
        out_grad=INF,
    ),
    formula_case(
        "prelu",
        {"x": [-2.0, -0.0, 0.0, 3.0, INF], "weight": [0.25, 0.5, 0.75, 1.5, 2.0]},
        prelu_gradients,
        "ends",
        prelu,
        out_grad=2.0,
    ),
    formula_case(
        "prelu",
        {"x": [3.0, INF], "weight": [0.25, 0.5]},
        prelu_gradients,
        "out-grad-inf",
        prelu,
        out_grad=INF,
    ),
    # Far tails.
    far("log_sigmoid", log_sigmoid_derivative, TAILS, dtypes=WIDE),
    far("softsign", lambda x: 1 / (1 + abs(x)) ** 2, [*TAILS, 1e10, INF, -INF], dtypes=WIDE),
    far("mish", mish_derivative, [*TAILS, 1e30, -800.0, INF], dtypes=WIDE, ulps=16),
    far("tanh_shrink", lambda x: math.tanh(x) ** 2, [*TAILS, 1e-10, INF, -INF], dtypes=WIDE),
    far(
        "selu",
        lambda x: SELU_SCALE * (SELU_ALPHA * math.exp(x) if x <= 0 else 1),
        [*TAILS, INF, -INF],
        dtypes=WIDE,
    ),
    far("celu", lambda x: math.exp(x) if x <= 0 else 1, [*TAILS, INF, -INF, NAN], dtypes=WIDE),
    far(
        "stanh", stanh_derivative, [-60.0, -20.0, -1.0, 0.0, 1.0, 20.0, 60.0], dtypes=WIDE, ulps=64
    ),
    far("soft_relu", sigmoid, [-39.0, -15.0, -1.0, 15.0, 39.0], dtypes=WIDE),
)
