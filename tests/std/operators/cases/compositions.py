"""Test cases of composed element-wise functions: logarithms, powers, remainders, steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, INTS, WIDE, Array, Case, Random, Values
from cases.gradient_formulas import far
from cases.unary import ENDS, INF, NAN, few

BIG = [1e-5, -0.3, 40.0, -5e9, 3e18]


def defined(function: Callable[..., float]) -> Callable[..., Array]:
    """Vectorize `function`; the result is NaN where Python raises ValueError."""

    def one(*numbers: float) -> float:
        try:
            return function(*numbers)
        except ValueError:
            return NAN

    vectorized = np.vectorize(one, otypes=[np.float64])
    return lambda x, y=None: vectorized(x) if y is None else vectorized(x, y)


def pairs(
    op: str,
    expected: Callable[..., Array],
    special: tuple[list[float], list[float]],
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
    reason: str = "",
    **options: Any,
) -> list[Case]:
    """Return the test cases of a two-input function: broadcast shapes, and explicit numbers."""
    shapes = {"row": ((3, 4), (4,)), "scalar": ((), (2, 3)), "empty": ((0, 3), (1, 3))}
    given = {"dtypes": FLOATS, **options}
    return [
        *(
            Case(
                op,
                {"x": Random(x, **(first or {})), "y": Random(y, **(second or {}))},
                expected,
                label=label,
                no_grad=reason,
                **given,
            )
            for label, (x, y) in shapes.items()
        ),
        Case(
            op,
            {"x": Values(special[0]), "y": Values(special[1])},
            expected,
            label="special",
            no_grad="infinite or undefined there",
            **{**given, "dtypes": WIDE},
        ),
    ]


def log10(x: float) -> float:
    return -INF if x == 0 else math.log10(x)


def logit(x: Array, eps: float | None = None) -> Array:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x) - np.log(1 - x)


def logaddexp(x: Array, y: Array) -> Array:
    return np.where(x == y, x + math.log(2), np.logaddexp(x, y))


def times_log(function: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda x, y: np.where((x == 0) & (y == y), 0.0, x * function(y))


def fmod(x: float, y: float) -> float:
    return math.fmod(x, y) if y and not math.isinf(x) else NAN


def whole_fmod(x: Array, y: Array) -> Array:
    def one(a: int, b: int) -> int:
        return int(math.fmod(a, b)) if b else 0

    return np.frompyfunc(one, 2, 1)(x.astype(object), y.astype(object)).astype(x.dtype)


def number(best: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda x, y: np.where(x != x, y, np.where(y != y, x, best(x, y)))


def atanh(x: float) -> float:
    return math.copysign(INF, x) if abs(x) == 1 else math.atanh(x)


def logaddexp2(x: Array, y: Array) -> Array:
    return logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


def smaller(x: Array, y: Array) -> Array:
    return np.where(x < y, x, y)


def heaviside(x: Array, y: Array) -> Array:
    return np.where(x > 0, 1, np.where(x < 0, 0, np.where(x == 0, y, x)))


def isclose(
    x: Array, y: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    if x.dtype.kind in "iub":
        x, y = x.astype(float), y.astype(float)
    near = (abs(x - y) <= atol + rtol * abs(y)) & np.isfinite(y)
    return near | (x == y) | (equal_nan & (x != x) & (y != y))


def all_close(x: Array, y: Array, **attrs: Any) -> Array:
    return isclose(x, y, **attrs).all()


NUMBERS = [-INF, -2.5, -0.5, -0.0, 0.0, 0.75, 3.0, INF, NAN, 1e9]
WHOLE = {"x": Random((9,), -9, 9), "y": Random((9,), -4, 4)}
CLOSE = {
    "x": Values([1.0, 1.0, 2.0, INF, INF, NAN, 0.0]),
    "y": Values([1.5, 1.1, INF, INF, 1.0, NAN, 0.1]),
}

CASES = (
    *few("log10", defined(log10), [0, 1, 1000, -1, INF, NAN], low=0.2, high=9.0, avoid=(1.0,)),
    *few("exp2", defined(lambda x: math.pow(2, x)), [0, 10, -3, -INF, INF, NAN]),
    *few("logit", logit, [0.0, 1.0, -0.5, NAN, 0.25], low=0.1, high=0.9, magnitude=1.0)[-3:],
    *few(
        "logit",
        logit,
        [0.0, 1.0, -0.5, NAN, 0.25],
        low=0.1,
        high=0.9,
        label="eps",
        attrs={"eps": 0.125},
        avoid=(0.125, 0.875),
        magnitude=1.0,
    ),
    *few("asinh", defined(math.asinh), [*ENDS, *BIG]),
    *few("acosh", defined(math.acosh), [1, 0.5, INF, NAN, *BIG], low=1.1, high=5.0),
    *few("atanh", defined(atanh), [*ENDS, 0.25, 1.5], low=-0.9, high=0.9),
    *few("deg2rad", lambda x: x * math.pi / 180, ENDS),
    *few("rad2deg", lambda x: x * 180 / math.pi, ENDS),
    *few("frac", lambda x: x - np.trunc(x), NUMBERS, avoid=(-1, 0, 1, 2)),
    *(
        Case(
            "trunc",
            {"x": source},
            lambda x: np.trunc(x).astype(x.dtype),
            dtypes=dtypes,
            label=label,
            no_grad="steps",
        )
        for label, source, dtypes in (
            ("floats", Values(NUMBERS), WIDE),
            ("integers", Random((9,), -9, 9), INTS),
            ("0", Random((0, 3)), WIDE),
        )
    ),
    far("asinh", lambda x: 1 / math.hypot(1, x), [0.0, 1e-5, -3.0, 1e9], dtypes=WIDE),
    far(
        "acosh",
        lambda x: 1 / math.sqrt((x - 1) * (x + 1)),
        [1.0001220703125, 3.0, 1e9],
        dtypes=WIDE,
    ),
    *pairs(
        "hypot",
        defined(lambda x, y: math.sqrt(x * x + y * y)),
        ([0.0, 3.0, INF, NAN, 1e30, 1e-30], [0.0, -4.0, 1.0, 1.0, 1e18, 1e-30]),
        {"avoid": (0.0,)},
        {"avoid": (0.0,)},
    ),
    *pairs(
        "logaddexp",
        logaddexp,
        ([INF, -INF, -INF, INF, 80.0, NAN], [INF, -INF, 1, -INF, -80, 1]),
        magnitude=1.0,
    ),
    *pairs(
        "logaddexp2",
        logaddexp2,
        ([30.0, NAN, INF], [-30.0, 1.0, 0.0]),
        magnitude=1.0,
    ),
    *pairs(
        "xlogy",
        times_log(np.log),
        ([0.0, 0.0, 0.0, 2.0, NAN, 2.0], [0.0, INF, NAN, 0.0, 1, -1]),
        second={"low": 0.2, "high": 5.0},
        magnitude=1.0,
    ),
    *pairs(
        "xlog1py",
        times_log(np.log1p),
        ([0.0, 0.0, 2.0, NAN], [-1.0, NAN, -1.0, 1.0]),
        second={"low": -0.7, "high": 5.0},
        magnitude=1.0,
    ),
    *pairs(
        "fmod",
        defined(fmod),
        ([7.0, -7.0, 7.0, 0.0, INF, 1.0, NAN], [3.0, 3, -3, 2, 2, INF, 1]),
        {"low": 2.1, "high": 2.9},
        {"low": 0.75, "high": 0.95},
    ),
    Case("fmod", WHOLE, whole_fmod, dtypes=INTS, label="integers", no_grad="integers"),
    *pairs(
        "fmax",
        number(np.maximum),
        ([NAN, 1.0, NAN, -INF, 2.0], [1.0, NAN, NAN, 3.0, 2.0]),
        {"distinct": True},
        {"distinct": True, "low": -1.95, "high": 2.05},
    ),
    *pairs(
        "fmin",
        number(np.minimum),
        ([NAN, 1.0, NAN, -INF, 2.0], [1.0, NAN, NAN, 3.0, 2.0]),
        {"distinct": True},
        {"distinct": True, "low": -1.95, "high": 2.05},
    ),
    Case("fmin", WHOLE, smaller, dtypes=INTS, label="integers", no_grad="integers"),
    *pairs(
        "heaviside",
        heaviside,
        ([0.0, -0.0, 1.0, -INF, INF, NAN], [0.5, 2.0, NAN, 1.0, 1.0, 1.0]),
        {"avoid": (0.0,)},
    ),
    Case("isclose", CLOSE, isclose, {"rtol": 0.125, "atol": 0.25}, label="wide", no_grad="bool"),
    Case("isclose", CLOSE, isclose, {"equal_nan": True}, FLOATS, label="nan", no_grad="bool"),
    Case("isclose", WHOLE, isclose, {"atol": 1.0}, INTS, label="integers", no_grad="bool"),
    Case(
        "allclose",
        {"x": Random((2, 3)), "y": Random((3,))},
        all_close,
        {"atol": 4.0},
        no_grad="bool",
    ),
    Case("allclose", CLOSE, all_close, label="not", no_grad="bool"),
    *(
        Case(op, {"x": Random(x), "y": Random((3,))}, expected, label=label, no_grad="bool")
        for op, expected in (("isclose", isclose), ("allclose", all_close))
        for label, x in (("0", (0, 3)), ("row", (2, 3)))
    ),
)
