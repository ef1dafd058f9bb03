"""Test cases of layer_norm."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def layer_norm(
    x: Array,
    scale: Array | float = 1.0,
    bias: Array | float = 0.0,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-5,
) -> tuple[Array, Array, Array]:
    begin = begin_norm_axis % x.ndim
    axes = tuple(range(begin, x.ndim))
    mean = x.mean(axes, keepdims=True)
    inv_std = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)
    shape = x.shape[:begin]
    return (x - mean) * inv_std * scale + bias, mean.reshape(shape), inv_std.reshape(shape)


def case(
    shape: tuple[int, ...], label: str, begin: int = 1, slots: str = "scale bias", **attrs: float
) -> Case:
    inputs: dict[str, Source] = {"x": Random(shape)}
    for slot in slots.split():
        inputs[slot] = Random(shape[begin:])
    return Case(
        "layer_norm",
        inputs,
        layer_norm,
        {"begin_norm_axis": begin, **attrs},
        label=label,
        terms=16,
        magnitude=4.0,
    )


def equal_elements(n: int) -> Case:
    """Return the case of rows whose elements are equal, so all deviations are exactly 0."""

    def expected(x: Array, epsilon: float) -> tuple[Array, Array, Array]:
        return 0 * x, x[:, 0], np.full(len(x), epsilon**-0.5)

    rows = Values(np.outer([0.1, 1e4 / 3, -7e5 / 9], np.ones(n)))
    attrs = {"epsilon": 1e-5}
    reason = "compared with a formula, in gradient_formulas.py"
    return Case(
        "layer_norm", {"x": rows}, expected, attrs, label=f"equal-{n}", magnitude=0, no_grad=reason
    )


CASES = (
    *(equal_elements(n) for n in (1, 3, 7, 100, 1030)),
    *(case((3, n), str(n)) for n in LENGTHS if n > 1),
    case((3, 1), "1", epsilon=0.1),
    case((0, 4), "empty"),
    case((3, 4), "plain", slots=""),
    case((3, 4), "scale-only", slots="scale"),
    case((3, 4), "bias-only", slots="bias"),
    case((2, 3, 4), "last", begin=-1),
    case((2, 3, 4), "two-axes"),
    case((2, 3, 4), "all", begin=0),
    Case(
        "layer_norm",
        # The mean is large: a difference of squares would lose the variance to cancellation.
        {"x": Values([[10000.0, 10001.0, 10002.0, 10003.0], [1.0, 1.0, 1.0, 1.0]])},
        layer_norm,
        label="large-mean",
        magnitude=4.0,
        ulps=16,
    ),
)
