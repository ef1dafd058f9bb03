"""Test cases of resize; the reference uses a matrix of weights per axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Values


def place_of(i: int, n: int, count: int, scale: float, coordinates: str) -> float:
    if coordinates == "align_corners":
        return i * (n - 1) / (count - 1) if count > 1 else 0.0
    if coordinates == "pytorch_half_pixel" and count == 1:
        return 0.0
    place = i / scale if coordinates == "asymmetric" else (i + 0.5) / scale - 0.5
    if coordinates == "half_pixel_symmetric":
        place += n / 2 * (1 - count / (scale * n))
    return place


def nearest(place: float, rounding: str) -> int:
    place = round(place, 9)  # an exact half is one
    if rounding == "floor":
        return math.floor(place)
    if rounding == "ceil":
        return math.ceil(place)
    return math.ceil(place - 0.5) if rounding.endswith("floor") else math.floor(place + 0.5)


def share(distance: float, mode: str, a: float) -> float:
    d = abs(distance)
    if mode == "linear":
        return max(1 - d, 0)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def matrix(
    n: int, count: int, scale: float, attrs: dict[str, Any], part: Sequence[float] = ()
) -> Array:
    """Return the weight of each input element in each output element."""
    mode, a = attrs["mode"], attrs.get("cubic_coefficient", -0.75)
    shares = np.zeros((count, n))
    for i in range(count):
        if mode == "area":
            shares[i, math.floor(i * n / count) : math.ceil((i + 1) * n / count)] = 1
            shares[i] /= shares[i].sum()
            continue
        if part:
            begin, end = (side * (n - 1) for side in part)
            place = begin + i * (end - begin) / (count - 1) if count > 1 else (begin + end) / 2
            if not 0 <= place <= n - 1:
                shares[i] = np.nan  # marks positions outside
                continue
        else:
            place = place_of(i, n, count, scale, attrs.get("coordinates", "half_pixel"))
        if attrs.get("antialias"):
            width = max(1 / scale, 1.0)
            shares[i] = [share((j - place) / width, mode, a) for j in range(n)]
            shares[i] /= shares[i].sum()
        elif mode == "nearest":
            at = nearest(place, attrs.get("rounding", "round_prefer_floor"))
            shares[i, min(max(at, 0), n - 1)] = 1
        else:
            for j in range(math.floor(place) - 2, math.floor(place) + 4):
                if 0 <= j < n or not attrs.get("exclude_outside"):
                    shares[i, min(max(j, 0), n - 1)] += share(place - j, mode, a)
            shares[i] /= shares[i].sum()
    return shares


def resize(
    x: Array,
    output_size: Sequence[int],
    scales: Sequence[float] = (),
    crop: Sequence[float] = (),
    extrapolation_value: float = 0.0,
    **attrs: Any,
) -> Array:
    for k, count in enumerate(output_size):
        axis = x.ndim - len(output_size) + k
        n = x.shape[axis]
        given = {"mode": "nearest", **attrs}
        part = crop[2 * k : 2 * k + 2]
        shares = matrix(n, count, scales[k] if scales else count / n, given, part)
        x = np.moveaxis(np.tensordot(shares, x, (1, axis)), 0, axis)
    return np.where(np.isnan(x), extrapolation_value, x) if crop else x


def case(label: str, shape: tuple[int, ...], size: Sequence[int], **attrs: Any) -> Case:
    given = {"output_size": list(size), **attrs}
    inputs = {"x": Random(shape)}
    return Case("resize", inputs, resize, given, label=label, terms=16, magnitude=4.0)


CUBIC: dict[str, Any] = {"mode": "cubic"}
LINEAR: dict[str, Any] = {"mode": "linear"}
CROP: dict[str, Any] = {"coordinates": "crop_and_resize"}
SIZES = (((2, 3, 5, 6), (7, 9)), ((1, 2, 7, 9), (3, 4)), ((2, 1, 4, 5), (6, 2)))

CASES = (
    *(
        case(f"{name}-{label}", shape, size, **attrs)
        for label, attrs in {
            **{f"nearest-{how}": {"rounding": how} for how in ("floor", "ceil")},
            "nearest-low": {"rounding": "round_prefer_floor"},
            "nearest-high": {"rounding": "round_prefer_ceil"},
            "nearest-asymmetric": {"rounding": "floor", "coordinates": "asymmetric"},
            "area": {"mode": "area"},
            "linear": LINEAR,
            "linear-aligned": {**LINEAR, "coordinates": "align_corners"},
            "linear-antialias": {**LINEAR, "antialias": True},
            "cubic": CUBIC,
            "cubic-aligned": {**CUBIC, "coordinates": "align_corners"},
            "cubic-asymmetric": {**CUBIC, "coordinates": "asymmetric"},
            "cubic-antialias": {**CUBIC, "antialias": True, "cubic_coefficient": -0.5},
            "linear-scales": {**LINEAR, "scales": [1.3, 0.6]},
            "cubic-scales": {**CUBIC, "scales": [0.7, 1.1], "coordinates": "half_pixel_symmetric"},
        }.items()
        for name, (shape, size) in zip(("up", "down", "both"), SIZES, strict=True)
    ),
    case("trilinear", (1, 2, 3, 4, 5), (5, 2, 7), **LINEAR),
    case("line", (2, 3, 8), (5,), **CUBIC),
    case("vector", (8,), (20,), **LINEAR),
    case("one", (2, 1, 1), (1, 1), **LINEAR),
    case("to-one", (2, 5, 4), (1, 1), **LINEAR, coordinates="pytorch_half_pixel"),
    case("to-one-aligned", (2, 5, 4), (1, 1), **CUBIC, coordinates="align_corners"),
    *(case(f"width-{n}", (2, 3, n), (n + 3,), **CUBIC) for n in LENGTHS if n),
    *(case(f"columns-{n}", (3, n), (5, n), **LINEAR) for n in LENGTHS if n),
    case("no-batch", (0, 3, 4), (6, 2), **LINEAR),
    case("cubic-inside", (2, 5, 7), (8, 3), **CUBIC, exclude_outside=True),
    case("linear-inside", (2, 5, 7), (8, 3), **LINEAR, exclude_outside=True),
    case("cropped", (2, 5, 7), (4, 3), **LINEAR, **CROP, crop=[0.3, 0.9, 0.8, 0.1]),
    case("cropped-cubic", (2, 5, 7), (1, 6), **CUBIC, **CROP, crop=[0.1, 0.6, 0.0, 1.0]),
    case("cropped-beyond", (2, 5, 7), (4, 6), **LINEAR, **CROP, crop=[-0.2, 0.9, 0.3, 1.4]),
    case(
        "extrapolated",
        (2, 5, 7),
        (4, 6),
        **CROP,
        crop=[-0.2, 0.9, 0.3, 1.4],
        extrapolation_value=2.5,
    ),
    Case(
        "resize",
        {"x": Values([1.0, np.nan, 2.0, np.inf, 3.0])},
        lambda x, **_: x,
        {"output_size": [5], **LINEAR},
        label="what-has-no-share-is-not-read",
        no_grad="undefined there",
    ),
)
