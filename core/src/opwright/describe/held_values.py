"""Which numbers a dtype holds: Python numbers, lists and attributes have none of their own.

They take on the dtype of what they go with. A float dtype rounds them, as it rounds everything; an
integer dtype holds whole numbers in its range, and bool 0 and 1: all others are refused, never cut
down to what fits.
"""

from __future__ import annotations

import math

import numpy as np

from opwright.describe.dtypes import is_float


def is_held(value: float, dtype: str) -> bool:
    """Tell whether a dtype holds a number; a float dtype holds all."""
    if is_float(dtype):
        return True
    least, most = _range_of(dtype)
    return math.isfinite(value) and value == math.floor(value) and least <= value <= most


def describe_held(dtype: str, value: float) -> str:
    """Return ``"in [0, 255]"``, ``"a whole number"``: what `value` is not and `dtype` needs."""
    if dtype == "bool":
        return "0 or 1"
    if not math.isfinite(value) or value != math.floor(value):
        return "a whole number"
    return "in [{}, {}]".format(*_range_of(dtype))


def wider_dtype(value: float) -> str:
    """Return a dtype that holds a number which another one does not."""
    return "int64" if is_held(value, "int64") else "float64"


def _range_of(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)
