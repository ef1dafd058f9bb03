"""Weight matrices for the variants of ONNX Resize that the operator `resize` lacks."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from opwright_onnx.dtypes import Array
from opwright_onnx.errors import UnsupportedError

MAX_ELEMENTS: Final = 2**24
"""The maximum number of elements of a weight matrix."""


class Rule(NamedTuple):
    """The attributes of Resize that determine which input elements an output element reads."""

    mode: str
    coordinates: str
    rounding: str
    antialias: bool
    exclude_outside: bool
    cubic: float


def make_weights(
    length: int, count: int, scale: float, rule: Rule, roi: tuple[float, float]
) -> tuple[Array, Array]:
    """Return weights, float64 [count, length], and whether each output maps into the input."""
    if length * count > MAX_ELEMENTS:
        raise UnsupportedError(
            f"an axis resized by a weight matrix must have at most {MAX_ELEMENTS} weights, got "
            f"{length} * {count}"
        )
    weights, is_inside = np.zeros((count, length)), np.ones(count, bool)
    for place in range(count):
        x = _find_place(place, length, count, scale, rule, roi)
        if rule.coordinates == "tf_crop_and_resize" and not 0 <= x <= length - 1:
            is_inside[place] = False
            continue
        start, shares = _find_shares(x, scale, rule)
        index = start + np.arange(len(shares))
        if rule.exclude_outside:
            shares = np.where((index < 0) | (index >= length), 0, shares)
            shares = shares / shares.sum()
        np.add.at(weights[place], np.clip(index, 0, length - 1), shares)
    return weights, is_inside


def _find_place(
    x: int, length: int, count: int, scale: float, rule: Rule, roi: tuple[float, float]
) -> float:
    """Return the input coordinate of an output element."""
    whole = scale * length
    if rule.coordinates == "align_corners":
        return 0.0 if whole == 1 else x * (length - 1) / (whole - 1)
    if rule.coordinates == "asymmetric":
        return x / scale
    if rule.coordinates == "tf_crop_and_resize":
        part = (roi[1] - roi[0]) * (length - 1)
        return roi[0] * (length - 1) + (part / 2 if whole == 1 else x * part / (whole - 1))
    if rule.coordinates == "pytorch_half_pixel" and whole == 1:
        return -0.5
    middle = (x + 0.5) / scale - 0.5
    if rule.coordinates == "half_pixel_symmetric":
        return length / 2 * (1 - count / whole) + middle
    return middle


def _find_shares(x: float, scale: float, rule: Rule) -> tuple[int, Any]:
    """Return the index of the first input element of the filter, and the filter weights."""
    low = math.floor(x)
    ratio = x - low
    if rule.mode == "nearest":
        return low, _round(ratio, rule.rounding)
    width = 1 if rule.mode == "linear" else 2
    narrow = min(scale, 1.0) if rule.antialias else 1.0
    first = math.floor(-width / narrow) + 1
    distance = np.abs((np.arange(first, 2 - first) - ratio) * narrow)
    if rule.mode == "linear":
        shares = np.clip(1 - distance, 0, 1)
    else:
        shares = _cubic(distance, rule.cubic)
    return low + first, shares / shares.sum()


def _cubic(x: Array, a: float) -> Array:
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _round(ratio: float, rounding: str) -> Any:
    takes_next = {
        "round_prefer_floor": ratio > 0.5,
        "round_prefer_ceil": ratio >= 0.5,
        "floor": False,
        "ceil": ratio > 0,
    }[rounding]
    return np.array([0.0, 1.0] if takes_next else [1.0, 0.0])
