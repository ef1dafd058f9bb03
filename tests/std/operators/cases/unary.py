"""Test cases of the element-wise functions of one input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values

INF, NAN = math.inf, math.nan


def elementwise(
    op: str,
    expected: Callable[..., Array],
    special: list[float],
    attrs: dict[str, Any] | None = None,
    dtypes: tuple[str, ...] = FLOATS,
    label: str = "",
    ulps: float = 4.0,
    magnitude: float = 0.0,
    no_half_grad: str = "",
    **domain: Any,
) -> list[Case]:
    """Return the test cases of one function: lengths, a matrix, a scalar, special values."""
    common: dict[str, Any] = {"attrs": attrs or {}, "ulps": ulps, "magnitude": magnitude}
    common["no_half_grad"] = no_half_grad
    prefix = f"{label}-" if label else ""
    cases = [
        Case(
            op,
            {"x": Random((n,), **domain)},
            expected,
            dtypes=dtypes if n == 17 else dtypes[-2:],
            label=f"{prefix}{n}",
            no_grad="" if n in (0, 7) else "the length does not matter to it",
            **common,
        )
        for n in LENGTHS
    ]
    for label, shape in (("scalar", ()), ("matrix", (3, 5))):
        x = Random(shape, **domain)
        cases.append(Case(op, {"x": x}, expected, label=f"{prefix}{label}", **common))
    x = Values(special)
    reason = "infinite or undefined there"
    cases.append(Case(op, {"x": x}, expected, label=f"{prefix}special", no_grad=reason, **common))
    return cases


def few(
    op: str, expected: Callable[..., Array], special: list[float], **options: Any
) -> list[Case]:
    """Return fewer test cases, for a function that shares its loop with a fully tested function."""
    cases = elementwise(op, expected, special, **options)
    return [cases[0], cases[LENGTHS.index(17)], *cases[-3:]]


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Vectorize a function of Python floats."""
    vectorized = np.vectorize(function, otypes=[np.float64])

    def apply(x: Array) -> Array:
        return vectorized(x)

    return apply


def log(x: Array) -> Array:
    return np.where(x > 0, each(math.log)(np.where(x > 0, x, 1)), np.where(x == 0, -INF, NAN))


def sign(x: Array) -> Array:
    return np.where(x > 0, 1.0, np.where(x < 0, -1.0, x))


def erf(x: Array) -> Array:
    """Sum the series 7.1.6 of Abramowitz and Stegun for abs(x) < 6; return the sign of x beyond."""
    term = total = (
        np.where(np.abs(x) < 6, x, 0.0)
        * 2
        / math.sqrt(math.pi)
        * np.exp(-(np.where(np.abs(x) < 6, x, 0.0) ** 2))
    )
    for n in range(1, 150):
        term = term * 2 * np.where(np.abs(x) < 6, x, 0.0) ** 2 / (2 * n + 1)
        total = total + term
    return np.where(np.isnan(x), x, np.where(np.abs(x) < 6, total, np.sign(x)))


def integers(op: str, expected: Callable[..., Array], attrs: dict[str, Any] | None = None) -> Case:
    return Case(
        op,
        {"x": Random((9,), -9, 9)},
        expected,
        attrs=attrs or {},
        dtypes=INTS,
        label="integers",
        no_grad="integers",
    )


def fractions(op: str, expected: Callable[..., Array], low: float = -4) -> Case:
    """Return the test case of integer and bool inputs, which have float32 results."""
    inputs = {"x": Random((9,), low, 4)}
    dtypes = ("int32", "uint8", "bool")
    return Case(op, inputs, expected, dtypes=dtypes, label="whole", no_grad="integers")


ENDS = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN]

CASES = (
    *elementwise("abs", lambda x: np.where(x < 0, 0 - x, x + 0), ENDS, avoid=(0.0,)),
    integers("abs", lambda x: np.where(x < 0, 0 - x, x)),
    *elementwise("negative", lambda x: -1 * x, ENDS),
    integers("negative", lambda x: (x.astype(np.int64) * -1).astype(x.dtype)),
    fractions("exp", lambda x: each(math.exp)(x * 1.0)),
    fractions("sqrt", lambda x: each(math.sqrt)(x * 1.0), low=0),
    integers(
        "scale",
        lambda x, scale, bias: (x.astype(np.int64) * scale + bias).astype(x.dtype),
        {"scale": 3, "bias": 2},
    ),
    integers(
        "pow_scalar",
        lambda x, exponent: (x.astype(np.int64) ** exponent).astype(x.dtype),
        {"exponent": 3},
    ),
    *elementwise("sign", sign, ENDS, avoid=(0.0,)),
    integers("sign", lambda x: (x > 0) * 1 - (x.astype(np.int64) < 0)),
    *elementwise("exp", each(math.exp), [0.0, 1.0, -INF, INF, NAN, -90.0, 8.0]),
    *elementwise("log", log, [0, 1, -1, INF, NAN, 1e-5], low=0.2, high=9.0, avoid=(1.0,)),
    *elementwise(
        "sqrt",
        lambda x: np.where(x < 0, NAN, np.abs(x) ** 0.5),
        [0, 4, -1, INF, NAN],
        low=0.2,
        high=9.0,
    ),
    *elementwise("square", lambda x: x * x, ENDS),
    integers("square", lambda x: x * x),
    *elementwise("reciprocal", lambda x: 1 / x, ENDS, avoid=(0.0,), gap=0.3),
    *elementwise("erf", erf, [*ENDS, 5.0, -5.0], ulps=16),
    *elementwise("scale", lambda x: x * 1, ENDS),
    *elementwise(
        "scale",
        lambda x, scale, bias: x * scale + bias,
        ENDS,
        label="line",
        attrs={"scale": -2.5, "bias": 0.75},
        magnitude=3.0,
    ),
    *elementwise("clip", lambda x: x * 1, ENDS, label="open"),
    *elementwise(
        "clip",
        lambda x, min, max: np.where(x < min, min, np.where(x > max, max, x)),
        ENDS,
        attrs={"min": -0.5, "max": 0.75},
        avoid=(-0.5, 0.75),
    ),
    integers(
        "clip",
        lambda x, min, max: np.array([i if i > min else 0 for i in x.tolist()]).clip(None, 4),
        {"min": -0.5, "max": 4.5},
    ),
)
