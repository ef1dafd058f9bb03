"""Cases whose gradients are compared with a formula: for constant functions, at kinks, in far
tails, at infinities and NaN, and for infinite output gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, WIDE, Array, Case, Random, Values
from cases.activations import elu, leaky_relu
from cases.unary import INF, NAN, each, sign

APART = "compared with a formula"
ENDS = [-INF, -2.0, -0.0, 0.0, 0.5, 2.0, INF, NAN]


def formula_case(
    op: str,
    inputs: dict[str, Any],
    gradients: Callable[..., Any],
    label: str,
    expected: Callable[..., Any] | None = None,
    dtypes: tuple[str, ...] = FLOATS,
    **options: Any,
) -> Case:
    """Return a test case with explicit inputs; by default, only relative errors are tolerated."""
    sources = {slot: Values(numbers) for slot, numbers in inputs.items()}
    given = {"no_grad": APART, "magnitude": 0.0, **options}
    return Case(op, sources, expected, label=label, gradients=gradients, dtypes=dtypes, **given)


def kinked(op: str, gradients: Callable[..., Array], **attrs: Any) -> list[Case]:
    """Return the test cases of a piecewise linear function, for finite and non-finite gradients."""
    suffix = "".join(f"-{value}" for value in attrs.values())
    return [
        formula_case(op, {"x": ENDS}, gradients, f"out-grad-{g}{suffix}", attrs=attrs, out_grad=g)
        for g in (1.0, -INF, INF, NAN)
    ]


def far(op: str, derivative: Callable[[float], float], x: list[float], **options: Any) -> Case:
    """Return a test case for a smooth function of one input, given its derivative."""

    def gradients(x: Array, out_grad: Array, **attrs: Any) -> Array:
        return each(derivative)(x) * out_grad

    return formula_case(op, {"x": x}, gradients, options.pop("label", "far"), **options)


# ---- derivatives at single points, without the rounding errors of finite differences -------------


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x)


def silu_derivative(x: float) -> float:
    if math.isinf(x):
        return float(x > 0)
    return sigmoid(x) * (1 + x * sigmoid(-x))


def gelu_derivative(x: float) -> float:
    if abs(x) > 40:
        return float(x > 0)
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return math.erfc(-x * math.sqrt(0.5)) / 2 + x * density


def gelu_tanh_derivative(x: float) -> float:
    if abs(x) > 40:
        return float(x > 0)
    inner = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    derivative = 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return sigmoid(inner) + x * derivative * sigmoid(inner) * sigmoid(-inner)


def left_tail(gate: Callable[[float], float]) -> Callable[..., Array]:
    """Return a function that computes x * gate(x), with its limits at both infinities."""

    def function(x: Array, **attrs: Any) -> Array:
        product = each(lambda v: v * gate(v) if math.isfinite(v) else max(v, 0.0))(x)
        return np.where(np.isnan(x), x, product)

    return function


def exact_gelu_gate(x: float) -> float:
    return math.erfc(-x * math.sqrt(0.5)) / 2


def tanh_gelu_gate(x: float) -> float:
    return sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)) if x > -40 else 0.0


# ---- functions of two or more inputs -------------------------------------------------------------


def divide_gradients(x: Array, y: Array, out_grad: Array) -> tuple[Array, Array]:
    wide = [array.astype(np.longdouble) for array in (x, y, out_grad)]
    return wide[2] / wide[1], -wide[2] * wide[0] / wide[1] / wide[1]


def taken(x: Array, y: Array, out_grad: Array, x_is_taken: Array) -> tuple[Array, Array]:
    return np.where(x_is_taken, out_grad, 0), np.where(x_is_taken, 0, out_grad)


def maximum_gradients(x: Array, y: Array, out_grad: Array) -> tuple[Array, Array]:
    return taken(x, y, out_grad, (x >= y) | (x != x))


def minimum_gradients(x: Array, y: Array, out_grad: Array) -> tuple[Array, Array]:
    return taken(x, y, out_grad, (x <= y) | (x != x))


def power_gradients(x: Array, y: Array, out_grad: Array) -> tuple[Array, Array]:
    out = x**y
    x_grad = np.where(y == 0, 0, y * x ** np.where(y == 0, 1, y - 1) * out_grad)
    flat = (x == 0) & (y >= 0)
    y_grad = np.where(flat, 0, out * np.log(np.where(flat, 1, x)) * out_grad)
    return np.where(np.isnan(out), NAN, x_grad), y_grad


def extremum_gradients(best: Callable[..., Array]) -> Callable[..., Array]:
    def gradients(x: Array, out_grad: Array, axis: list[int]) -> Array:
        out = best(x, axis=tuple(axis), keepdims=True)
        is_best = (x == out) | (np.isnan(x) & np.isnan(out))
        share = np.expand_dims(out_grad, tuple(axis)) / is_best.sum(tuple(axis), keepdims=True)
        return np.where(is_best, share, 0)

    return gradients


def equal_elements(n: int) -> Case:
    """Return a layer_norm case whose rows have equal elements, so all deviations are 0."""

    def gradients(x: Array, scale: Array, out_grad: Array, epsilon: float) -> tuple[Array, Array]:
        inner = out_grad * scale
        return (inner - inner.mean(1, keepdims=True)) / math.sqrt(epsilon), 0 * scale

    return Case(
        "layer_norm",
        {"x": Values(np.outer([0.1, 1e4 / 3, -7e5 / 9], np.ones(n))), "scale": Random((n,))},
        None,
        label=f"gradients-equal-{n}",
        gradients=gradients,
        out_grad=np.cos(np.arange(n)),
        attrs={"epsilon": 1e-5},
        magnitude=1 / math.sqrt(1e-5),
        terms=n,
        no_grad=APART,
    )


PAIRS = {
    "x": [NAN, 1.0, NAN, 1.0, 2.0, INF, -INF, INF],
    "y": [1.0, NAN, NAN, 1.0, 1.0, INF, -INF, -INF],
}
LINES = [[1.0, NAN, NAN, 2.0], [3.0, 3.0, 1.0, -1.0], [INF, INF, -INF, -INF]]
TAIL = [-1e30, -800.0, -300.0, -40.0, -15.0, -1.0, 15.0, 300.0, 1e30, -INF, INF]

CASES = (
    *kinked("relu", lambda x, out_grad: np.where(x <= 0, 0, out_grad)),
    *kinked("abs", lambda x, out_grad: np.where(x == 0, 0, sign(x) * out_grad)),
    *kinked("sign", lambda x, out_grad: np.zeros_like(x)),
    *kinked(
        "clip",
        lambda x, out_grad, min, max: np.where((x >= min) & (x <= max), out_grad, 0),
        min=-0.5,
        max=0.5,
    ),
    *kinked(
        "leaky_relu", lambda x, out_grad, alpha: np.where(x > 0, 1, alpha) * out_grad, alpha=0.25
    ),
    formula_case(
        "leaky_relu",
        {"x": ENDS},
        lambda x, out_grad, alpha: np.where(x > 0, out_grad, 0),
        "flat-ends",
        leaky_relu,
        attrs={"alpha": 0.0},
    ),
    *(
        formula_case(op, PAIRS, gradients, f"ends-{g}", out_grad=g)
        for op, gradients in (("maximum", maximum_gradients), ("minimum", minimum_gradients))
        for g in (1.0, INF)
    ),
    *(
        formula_case(
            op,
            {"x": LINES},
            extremum_gradients(best),
            f"ends-{len(axis)}-{g}",
            attrs={"axis": axis},
            out_grad=g,
        )
        for op, best in (("max", np.max), ("min", np.min))
        for axis in ([1], [0, 1])
        for g in (1.0, INF)
    ),
    Case(
        "where",
        {
            "condition": Values([True, False], "bool"),
            "x": Values([1.0, 1.0]),
            "y": Values([1.0, 1.0]),
        },
        None,
        label="out-grad-inf",
        gradients=lambda condition, x, y, out_grad: (
            np.where(condition, out_grad, 0),
            np.where(condition, 0, out_grad),
        ),
        out_grad=INF,
        no_grad=APART,
    ),
    formula_case(
        "dropout",
        {"x": [1.0, 2.0, INF, NAN]},
        lambda x, out_grad, **attrs: np.zeros_like(x),
        "out-grad-inf",
        attrs={"probability": 1.0, "training": True, "seed": 1},
        out_grad=INF,
    ),
    formula_case(
        "fc",
        {"x": [[-1.0], [0.0], [4.0]], "weight": [[1.0]], "bias": [0.0]},
        lambda x, weight, bias, out_grad, activation: (
            np.array([[0.0], [0.0], [0.25]]),
            np.array([[1.0]]),
            np.array([0.25]),
        ),
        "out-grad-inf",
        dtypes=WIDE,
        attrs={"activation": "relu"},
        out_grad=[[INF], [INF], [0.25]],
    ),
    # Far tails.
    formula_case(
        "elu",
        {"x": [-INF, -700.0, -188.0, -30.0, -15.0, -1.0, -0.0, 1.0, INF, NAN]},
        lambda x, out_grad, alpha: np.where(x <= 0, alpha * np.exp(x), 1) * out_grad,
        "far",
        elu,
        attrs={"alpha": 0.75},
    ),
    far(
        "gelu",
        gelu_derivative,
        TAIL,
        expected=left_tail(exact_gelu_gate),
        dtypes=WIDE,
        terms=16,
        magnitude=1e-30,
    ),
    far(
        "gelu",
        gelu_tanh_derivative,
        TAIL,
        label="far-tanh",
        expected=left_tail(tanh_gelu_gate),
        attrs={"approximate": "tanh"},
        dtypes=WIDE,
    ),
    far("silu", silu_derivative, TAIL, expected=left_tail(sigmoid), dtypes=WIDE),
    far("softplus", sigmoid, [-700.0, -80.0, -15.0, -1.0, 15.0, 80.0, 1e30], dtypes=WIDE),
    far("sqrt", lambda x: 0.5 / math.sqrt(x), [1e-37, 1e-5, 4.0, 1e37], dtypes=WIDE),
    far("exp", math.exp, [-80.0, -15.0, 0.0, 15.0, 80.0], dtypes=WIDE),
    far("log", lambda x: 1 / x, [1e-37, 1e-5, 4.0, 1e37], dtypes=WIDE),
    formula_case(
        "reciprocal",
        {"x": [1e30, 1e-30, -4.0]},
        lambda x, out_grad: -out_grad / x / x,
        "far",
        dtypes=WIDE,
        out_grad=[1e35, 1e-35, 1.0],
    ),
    formula_case(
        "divide",
        {"x": [1e-30, 1e30, 1e-20, 1.0], "y": [1e-25, 1e25, 1e5, 3.0]},
        divide_gradients,
        "far",
        dtypes=WIDE,
        out_grad=[1e16, 1e-16, 1e20, 1.0],
    ),
    formula_case(
        "power",
        {"x": [0.0, 0.0, 2.0, 3.0, -2.0, 5.0], "y": [0.0, 2.0, 0.0, 2.0, 1e-20, -1.0]},
        power_gradients,
        "far",
        lambda x, y: x**y,
        dtypes=WIDE,
    ),
    formula_case(
        "power",
        {"x": [0.0, 0.0, 2.0, 3.0], "y": [0.0, 3.0, 0.0, 2.0]},
        power_gradients,
        "out-grad-inf",
        out_grad=[INF, 1.0, INF, INF],
        dtypes=WIDE,
    ),
    # The mean equals the only element, so the gradients through the mean and the element cancel
    # exactly.
    formula_case(
        "layer_norm",
        {"x": [[5.3], [1e4], [-0.7]], "scale": [1.7]},
        lambda x, scale, out_grad, epsilon: (0 * x, 0 * scale),
        "one-element",
        dtypes=WIDE,
        attrs={"epsilon": 1e-5},
        out_grad=[[123.4], [77.7], [0.3]],
    ),
    *(equal_elements(n) for n in (3, 7, 100, 1030)),
)
