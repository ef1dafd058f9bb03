"""Test cases of softmax."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def softmax(x: Array, axis: int = -1) -> Array:
    """Compute the definition in long double, after a shift that does not change the result."""
    wide = x.astype(np.longdouble)
    powers = np.exp(wide - np.max(wide, axis, keepdims=True, initial=-np.inf))
    return (powers / powers.sum(axis, keepdims=True)).astype(float)


# Scores so far apart that probabilities underflow, some scores -inf, and rows whose softmax is
# undefined.
SPECIAL = [
    [1000.0, 1000.0, 999.0],
    [-1000.0, 0.0, -90.0],
    [-1000.0, -1001.0, -1002.0],
    [-np.inf, 0.0, 1.0],
    [-np.inf, -np.inf, 5.0],
    [-np.inf, -np.inf, -np.inf],
    [np.inf, 0.0, 1.0],
    [np.nan, 0.0, 1.0],
]


def case(x: Source, label: str, no_grad: str = "", **attrs: int) -> Case:
    return Case("softmax", {"x": x}, softmax, attrs, label=label, no_grad=no_grad)


CASES = (
    *(case(Random((3, n), -4, 4), str(n)) for n in LENGTHS),
    *(case(Random((2, 3, 4)), f"axis{axis}", axis=axis) for axis in (0, 1, -1, -2)),
    case(Random((0, 3)), "empty"),
    case(Random((5,)), "vector"),
    case(Random(()), "scalar"),
    case(Random(()), "scalar-axis0", axis=0),
    case(Values(SPECIAL), "special", "undefined there"),
)
