"""Test cases of elementary functions, rounding, and non-finite numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from case import FLOATS, INTS, WIDE, Array, Case, Random, Values
from cases.binary import integers as whole_pairs
from cases.binary import pairs
from cases.gradient_formulas import far, formula_case
from cases.unary import ENDS, INF, NAN, each, elementwise, integers

TURNS = [0.0, -0.0, 1.5, 22.0, 355.0, -1e4, INF, -INF, NAN]
# Arguments on both sides of the range-reduction limit of the kernels.
LARGE = [1e6, 1.5e6, 3e9, -1e15, 1e22, 0.5, -1e30, 3e38]


def defined(function: Callable[[float], float]) -> Callable[..., Array]:
    """Vectorize `function`; ValueError becomes NaN, and OverflowError becomes infinity."""

    def one(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return NAN
        except OverflowError:
            return INF

    return each(one)


def odd_overflow(function: Callable[[float], float]) -> Callable[..., Array]:
    """Vectorize an odd function; results that overflow become infinities with the sign of x."""
    return lambda x: np.copysign(defined(function)(np.abs(x)), x)


def log1p(x: Array) -> Array:
    return np.where(x == -1, -INF, defined(math.log1p)(np.where(x == -1, 0, x)))


def log2(x: Array) -> Array:
    return np.where(x == 0, -INF, defined(math.log2)(np.where(x == 0, 1, x)))


def rsqrt(x: Array) -> Array:
    root = defined(math.sqrt)(x)
    return np.where(x == 0, np.copysign(INF, x), 1 / np.where(x == 0, 1, root))


def whole(function: Callable[[float], float]) -> Callable[..., Array]:
    return each(lambda x: function(x) if math.isfinite(x) else x)


def rounded(op: str, function: Callable[[float], int]) -> list[Case]:
    """Return the test cases of a step function."""
    special = [*ENDS, 0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e30, 0.49999997, 8388609.0]
    made = elementwise(op, whole(function), special, dtypes=WIDE)
    return [*made, integers(op, lambda x: x)]


def asked(op: str, expected: Callable[[Array], Array]) -> list[Case]:
    """Return the test cases of an element-wise predicate."""
    reason = "its result is bool"
    special = Values([*ENDS, 65504.0, 1e-7])
    kinds = (*FLOATS, *INTS, "bool")
    return [
        Case(op, {"x": special}, expected, dtypes=FLOATS, label="special", no_grad=reason),
        Case(op, {"x": Random((3, 11))}, expected, dtypes=kinds, label="any", no_grad=reason),
        Case(op, {"x": Random(())}, expected, label="scalar", no_grad=reason),
        Case(op, {"x": Random((0,))}, expected, label="0", no_grad=reason),
    ]


def atan2(x: Array, y: Array) -> Array:
    return np.vectorize(math.atan2, otypes=[np.float64])(x, y)


def power(x: Array, exponent: float) -> Array:
    def one(v: float) -> float:
        if v == 0 and exponent < 0:
            return math.copysign(INF, v) if exponent % 2 == 1 else INF
        return math.pow(v, exponent)

    return defined(one)(x)


def number(x: Array, nan: float = 0.0, posinf: float = INF, neginf: float = -INF) -> Array:
    found = np.where(np.isnan(x), nan, np.where(x == INF, posinf, x))
    return np.where(x == -INF, neginf, found)


def ends_in(dtype: str) -> Callable[[Array], Array]:
    """Return the expected result with default arguments; the defaults are the limits of `dtype`."""
    most = float(np.finfo(dtype).max)
    return lambda x: np.array([most, -most, 0, 1])


def quotient(x: float, y: float) -> Fraction:
    return Fraction(x) / Fraction(y)


def mod(x: Array, y: Array) -> Array:
    def one(x: float, y: float) -> float:
        if y == 0 or not math.isfinite(x) or y != y:
            return NAN
        if math.isinf(y):
            return x if x == 0 or (x < 0) == (y < 0) else y
        return float(Fraction(x) - Fraction(y) * (quotient(x, y) // 1))

    return np.vectorize(one, otypes=[np.float64])(x, y)


def floor_divide(x: Array, y: Array) -> Array:
    def one(x: float, y: float) -> float:
        if x != x or y != y or math.isinf(x):
            return NAN
        if y == 0:
            return math.copysign(INF, x) * math.copysign(1, y) if x else NAN
        if math.isinf(y):
            return 0.0 if x == 0 or (x < 0) == (y < 0) else -1.0
        return float(quotient(x, y) // 1)

    return np.vectorize(one, otypes=[np.float64])(x, y)


def whole_mod(x: Array, y: Array) -> Array:
    wide = (x.astype(object), y.astype(object))
    return np.frompyfunc(lambda a, b: a % b if b else 0, 2, 1)(*wide).astype(x.dtype)


def whole_floor_divide(x: Array, y: Array) -> Array:
    wide = (x.astype(object), y.astype(object))
    exact = np.frompyfunc(lambda a, b: a // b if b else 0, 2, 1)(*wide)
    bits = 8 * x.dtype.itemsize
    wrapped = np.frompyfunc(lambda a: a % 2**bits, 1, 1)(exact)
    return wrapped.astype(f"uint{bits}").astype(x.dtype)


def ends_of(dtype: str) -> dict[str, Values]:
    """Return every pair of numbers near 0 and near the limits of an integer dtype."""
    info = np.iinfo(dtype)
    ends = [0, 1, 3, 7, info.max, info.max - 1, info.min, info.min + 1]
    if info.min < 0:
        ends += [-1, -3, -7]
    x, y = np.meshgrid(np.array(ends, dtype), np.array(ends, dtype))
    return {"x": Values(x.ravel(), dtype), "y": Values(y.ravel(), dtype)}


def divisions(op: str, exact: Callable[..., Array], of_whole: Callable[..., Array]) -> list[Case]:
    """Return the test cases of a division that rounds down."""
    why = "a line with steps"
    special = (
        [7.0, -7.0, 7.0, -7.0, 0.0, -0.0, 5.0, INF, 1.0, -1.0, NAN, 1e30, 6.0, 1e-30, 3.0, 1e4],
        [3.0, 3.0, -3.0, -3.0, 2.0, 2.0, 0.0, 2.0, INF, INF, 1.0, 7.0, -2.0, -1.0, NAN, 1e-3],
    )
    apart = {"avoid": (0.0,), "gap": 0.3}
    return [
        *pairs(op, exact, WIDE, why, second=apart, special=special, magnitude=0.0),
        *whole_pairs(op, of_whole),
        *(
            Case(op, ends_of(dtype), of_whole, dtypes=(dtype,), label=f"ends-{dtype}", no_grad=why)
            for dtype in INTS
        ),
    ]


INSIDE = {"low": -0.9, "high": 0.9}
CASES = (
    *elementwise("expm1", each(math.expm1), [0.0, -0.0, 1e-7, -90.0, -INF, NAN, 8.0]),
    *elementwise("log1p", log1p, [0.0, -0.0, 1e-7, -1.0, -2.0, INF, NAN], low=-0.8, high=9.0),
    *elementwise("log2", log2, [0, 1, 8, 0.125, -1, INF, NAN], low=0.2, high=9.0, avoid=(1.0,)),
    *elementwise("rsqrt", rsqrt, [0.0, -0.0, 4, -1, INF, NAN], low=0.2, high=9.0),
    *elementwise("sin", defined(math.sin), TURNS),
    *elementwise("cos", defined(math.cos), TURNS, magnitude=1e-3),
    *elementwise("tan", defined(math.tan), TURNS, low=-1.2, high=1.2),
    *(
        Case(
            op,
            {"x": Values(LARGE)},
            defined(function),
            dtypes=WIDE,
            label="large",
            no_grad="its argument is coarser than a turn",
            magnitude=0.0,
        )
        for op, function in (("sin", math.sin), ("cos", math.cos), ("tan", math.tan))
    ),
    *elementwise("asin", defined(math.asin), [*ENDS, 2.0, 0.5, -0.51], **INSIDE),
    *elementwise("acos", defined(math.acos), [*ENDS, 2.0, 0.5, -0.51], **INSIDE),
    *elementwise("atan", defined(math.atan), [*ENDS, 0.42, 2.5, -1e4]),
    *elementwise("sinh", odd_overflow(math.sinh), [0.0, -0.0, 11.0, -1.0, INF, -INF, NAN]),
    *elementwise("cosh", defined(math.cosh), [0.0, 11.0, -9.5, INF, -INF, NAN]),
    Case(
        "sinh",
        {"x": Values([89.0, 89.4, -89.4, 1e-30])},
        each(math.sinh),
        dtypes=WIDE,
        label="ends",
        no_grad="infinite or undefined there",
        ulps=16,
        magnitude=0.0,
    ),
    *pairs(
        "atan2",
        atan2,
        first={"avoid": (0.0,)},
        second={"avoid": (0.0,)},
        special=(
            [0.0, -0.0, 0.0, -0.0, INF, -INF, INF, 1.0, NAN, 1.0, 1e30, 0.0],
            [0.0, 0.0, -0.0, -0.0, INF, INF, -INF, -INF, 1.0, NAN, 1e-30, NAN],
        ),
    ),
    *pairs(
        "atan2_derivative",
        lambda x, y: y / (x**2 + y**2),
        first={"avoid": (0.0,)},
        second={"avoid": (0.0,)},
        special=(
            [0.0, 1.0, INF, -INF, 1.0, INF, NAN, 1.0],
            [0.0, -0.0, 1.0, 1.0, INF, INF, 1.0, NAN],
        ),
    ),
    *rounded("ceil", math.ceil),
    *rounded("floor", math.floor),
    *rounded("round", round),
    *asked("isnan", lambda x: x != x),
    *asked("isinf", lambda x: (x == INF) | (x == -INF) if x.dtype.kind == "f" else x != x),
    *asked("isfinite", lambda x: abs(x) < INF if x.dtype.kind == "f" else x == x),
    *(
        elementwise(
            "nan_to_num",
            number,
            ENDS,
            attrs={"nan": 0.25, "posinf": 8.0, "neginf": -4.0},
        )
    ),
    integers("nan_to_num", lambda x: x),
    *(
        Case(
            "nan_to_num",
            {"x": Values([INF, -INF, NAN, 1.0])},
            ends_in(dtype),
            dtypes=(dtype,),
            label=f"ends-{dtype}",
            no_grad="constant there",
        )
        for dtype in FLOATS
    ),
    *(
        case
        for exponent in (2.0, 3.0, 0.5, -1.0, -0.5, 0.0, 1.0, 2.5, -3.0)
        for case in elementwise(
            "pow_scalar",
            power,
            [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, INF, -INF, NAN],
            attrs={"exponent": exponent},
            label=str(exponent),
            low=0.3,
            high=3.0,
            ulps=8,
        )[0 if exponent == 2.5 else -4 :]
    ),
    *pairs("squared_difference", lambda x, y: (x - y) ** 2, magnitude=1.0),
    *whole_pairs("squared_difference", lambda x, y: (x - y) * (x - y)),
    *divisions("mod", mod, whole_mod),
    *divisions("floor_divide", floor_divide, whole_floor_divide),
    *elementwise("increment", lambda x: x + 1, ENDS),
    *elementwise("increment", lambda x, step: x + step, ENDS, attrs={"step": -2.5}, label="back"),
    integers("increment", lambda x, step: x + np.array(step, x.dtype), {"step": 3.0}),
    *(
        Case(
            "lerp",
            {"x": Random(x), "y": Random(y), "weight": Random(weight)},
            lambda x, y, weight: x + weight * (y - x),
            dtypes=FLOATS,
            label=label,
        )
        for label, x, y, weight in (
            ("17", (17,), (17,), (17,)),
            ("row", (3, 4), (4,), (3, 1)),
            ("scalar", (2, 3), (2, 3), ()),
            ("empty", (0, 3), (1, 3), (1,)),
        )
    ),
    Case(
        "lerp",
        {"x": Values([1e8, 1.0, INF]), "y": Values([1.0, 3.0, 1.0]), "weight": Values(1.0)},
        lambda x, y, weight: np.array([1.0, 3.0, NAN]),
        dtypes=WIDE,
        label="ends",
        no_grad="infinite or undefined there",
    ),
    # Derivatives.
    far("expm1", math.exp, [-80.0, -30.0, -1.0, 0.0, 15.0, 80.0], dtypes=WIDE),
    far("log1p", lambda x: 1 / (1 + x), [-0.999, -1e-30, 1e-5, 4.0, 1e37], dtypes=WIDE),
    far("log2", lambda x: 1 / x / math.log(2), [1e-37, 1e-5, 4.0, 1e37], dtypes=WIDE),
    far("rsqrt", lambda x: -0.5 / (x * math.sqrt(x)), [1e-20, 1e-5, 4.0, 1e20], dtypes=WIDE),
    far("asin", lambda x: 1 / math.sqrt((1 - x) * (1 + x)), [-0.9999, 1e-30, 0.5], dtypes=WIDE),
    far("acos", lambda x: -1 / math.sqrt((1 - x) * (1 + x)), [-0.9999, 1e-30, 0.5], dtypes=WIDE),
    far("atan", lambda x: 1 / (1 + x * x), [-1e10, -3.0, 0.0, 1e-30, 1e15], dtypes=WIDE),
    formula_case(
        "nan_to_num",
        {"x": [INF, -INF, NAN, 1.0]},
        lambda x, out_grad, **attrs: np.where(np.isfinite(x), out_grad, 0),
        "out-grad-inf",
        out_grad=INF,
    ),
    formula_case(
        "pow_scalar",
        {"x": [0.0, -1.0, 2.0, INF, NAN]},
        lambda x, out_grad, exponent: np.zeros_like(x),
        "constant",
        attrs={"exponent": 0.0},
        out_grad=INF,
    ),
)
