"""Test cases of quantize and dequantize with int8; test_narrow_dtypes covers other dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import FLOATS, Array, Case, Random, Values

CODES = "its result is codes"


def spread(scale: Array, x: Array, axis: int = -1, block_size: int = 0, **_: Any) -> Array:
    """Expand a scale to the shape of x."""
    if scale.ndim == 0:
        return scale
    if block_size:
        repeated = np.repeat(scale, block_size, axis)
        return np.take(repeated, range(x.shape[axis]), axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    return scale.reshape(shape)


def quantize(x: Array, scale: Array, zero_point: Array | None = None, **attrs: Any) -> Array:
    info = np.iinfo(attrs["dtype"])
    codes = np.rint(x / spread(scale, x, **attrs))
    if zero_point is not None:
        codes = codes + spread(zero_point, x, **attrs).astype(float)
    return np.clip(codes, info.min, info.max).astype(attrs["dtype"])


def dequantize(x: Array, scale: Array, zero_point: Array | None = None, **attrs: Any) -> Array:
    offset = 0.0 if zero_point is None else spread(zero_point, x, **attrs).astype(float)
    return (x.astype(float) - offset) * spread(scale, x, **attrs)


POWERS = Values([0.25, 0.5, 2.0])


def both(
    label: str, shape: tuple[int, ...], scale: Any, zero: Any, **attrs: Any
) -> tuple[Case, ...]:
    offset = {} if zero is None else {"zero_point": zero}
    codes = Random(shape, -128, 127, dtype="int8")
    return (
        Case(
            "quantize",
            {"x": Random(shape, -60, 60), "scale": scale, **offset},
            quantize,
            {"dtype": "int8", **attrs},
            FLOATS,
            label,
            no_grad=CODES,
        ),
        Case(
            "dequantize",
            {"x": codes, "scale": scale, **offset},
            dequantize,
            attrs,
            FLOATS,
            label,
            magnitude=256.0,
        ),
    )


CASES = (
    *both("tensor", (3, 5), Values(0.5), None),
    *both("zero-point", (3, 5), Values(0.5), Values(-7, "int8")),
    *both("last-axis", (4, 3), POWERS, Values([1, -2, 3], "int8")),
    *both("first-axis", (3, 2, 4), POWERS, Values([1, -2, 3], "int8"), axis=0),
    *both("blocks", (2, 5), Values([[0.5, 1.0, 2.0], [0.25, 4.0, 1.0]]), None, block_size=2),
    *both("empty", (0, 3), POWERS, None),
    *both("scalar", (), Values(0.25), None),
    Case(
        "quantize",
        {"x": Values([0.25, 0.75, -0.25, 1e30, -1e30, np.inf, -np.inf]), "scale": Values(0.5)},
        quantize,
        {"dtype": "int8"},
        ("float32", "float64"),
        "halves-and-limits",
        no_grad=CODES,
    ),
)
