"""Test cases of the element-wise functions of two inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values

INF, NAN = math.inf, math.nan

SHAPES = {
    "row": ((3, 4), (4,)),
    "column": ((3, 4), (3, 1)),
    "outer": ((3, 1), (1, 4)),
    "left": ((4,), (2, 3, 4)),
    "scalar": ((), (2, 3)),
    "ones": ((1, 1), (3, 4)),
    "empty": ((0, 3), (1, 3)),
    "middle": ((2, 1, 3), (2, 5, 1)),
}
SPECIAL = ([0.0, 1.0, -1.0, INF, -INF, NAN, NAN, 0.0], [0.0, 0.0, INF, INF, INF, 1.0, NAN, NAN])


def pairs(
    op: str,
    expected: Callable[..., Array],
    dtypes: tuple[str, ...] = FLOATS,
    no_grad: str = "",
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
    special: tuple[list[float], list[float]] = SPECIAL,
    **tolerance: Any,
) -> list[Case]:
    """Return the test cases of a function: lengths, every kind of broadcasting, special values."""
    first, second = first or {}, second or {}

    def case(label: str, x: tuple[int, ...], y: tuple[int, ...], reason: str) -> Case:
        inputs = {"x": Random(x, **first), "y": Random(y, **second)}
        every = dtypes if label in {"17", "row"} else dtypes[-2:]
        return Case(
            op, inputs, expected, dtypes=every, label=label, no_grad=no_grad or reason, **tolerance
        )

    length = "the length does not matter to it"
    cases = [case(str(n), (n,), (n,), "" if n == 7 else length) for n in LENGTHS]
    cases += [case(label, x, y, "") for label, (x, y) in SHAPES.items()]
    if special:
        inputs = {"x": Values(special[0]), "y": Values(special[1])}
        reason = "infinite or undefined there"
        cases.append(Case(op, inputs, expected, label="special", no_grad=reason, **tolerance))
    return cases


def integers(op: str, expected: Callable[..., Array], low: int = -5, **second: Any) -> list[Case]:
    """Return the test cases with integers."""
    inputs = {"x": Random((9,), low, 5), "y": Random((9,), **{"low": low, "high": 5, **second})}
    wide = {"x": Random((2, 9), low, 5), "y": Random((9,), **{"low": low, "high": 5, **second})}
    return [
        Case(op, inputs, expected, dtypes=INTS, label="integers", no_grad="integers"),
        Case(op, wide, expected, dtypes=INTS, label="integers-row", no_grad="integers"),
    ]


def larger(x: Array, y: Array) -> Array:
    return np.where(x != x, x, np.where(y != y, y, np.where(x > y, x, y)))


def smaller(x: Array, y: Array) -> Array:
    return np.where(x != x, x, np.where(y != y, y, np.where(x < y, x, y)))


def power(x: Array, y: Array) -> Array:
    return np.vectorize(math.pow, otypes=[np.float64])(x, y)


def repeated_product(x: Array, y: Array) -> Array:
    out = np.ones(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    for i in range(5):
        out = np.where(i < y, out * x, out)
    return out


APART = {"distinct": True, "low": -3.0, "high": 3.0}
LAST = {"distinct": True, "low": -2.95, "high": 3.05}

CASES = (
    *pairs("add", lambda x, y: x + y),
    *integers("add", lambda x, y: x + y),
    *(
        Case(
            op,
            {"x": Random((9,)), "y": Random((2, 9))},
            expected,
            dtypes=dtypes,
            label="bool" if dtypes == ("bool",) else "whole",
            no_grad="no floats",
        )
        for op, expected, dtypes in (
            ("add", lambda x, y: x | y, ("bool",)),
            ("multiply", lambda x, y: x & y, ("bool",)),
            ("maximum", lambda x, y: x | y, ("bool",)),
            ("minimum", lambda x, y: x & y, ("bool",)),
            ("divide", lambda x, y: x / (y * 1.0), ("int32", "uint8", "bool")),
            ("atan2", lambda x, y: np.arctan2(x * 1.0, y), ("int32", "uint8", "bool")),
        )
    ),
    *pairs("subtract", lambda x, y: x - y),
    *integers("subtract", lambda x, y: x - y),
    *pairs("multiply", lambda x, y: x * y),
    *integers("multiply", lambda x, y: x * y),
    *pairs("divide", lambda x, y: x / y, second={"avoid": (0.0,), "gap": 0.3}, magnitude=0.0),
    *pairs(
        "power",
        power,
        first={"low": 0.3, "high": 3.0},
        special=([0.0, 0.0, 2.0, INF, 1.0, 2.0, NAN, -2.0], [0.0, 2.0, INF, -1.0, NAN, -INF, 0, 3]),
        ulps=8,
        magnitude=0.0,
    ),
    *integers("power", repeated_product, low=0, high=3),
    Case(
        "power",
        {"x": Values([-2.0, -1.5, 0.0, 0.0, 3.0]), "y": Values(2.0)},
        lambda x, y: x * x,
        label="square",
        no_grad="the logarithm in the gradient of y is undefined there",
    ),
    *pairs("maximum", larger, first=APART, second=LAST),
    *integers("maximum", larger),
    *pairs("minimum", smaller, first=APART, second=LAST),
    *integers("minimum", smaller),
)
