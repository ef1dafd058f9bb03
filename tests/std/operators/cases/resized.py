"""Test cases of interpolate, iou and max_unpool2d, computed element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from case import FLOATS, LENGTHS, Array, Case, Random, Values

NHWC = {"data_format": "NHWC"}
BILINEAR: dict[str, Any] = {"mode": "bilinear"}
ALIGNED: dict[str, Any] = {"mode": "bilinear", "align_corners": True}


def weights(size: int, count: int, mode: str, align_corners: bool) -> Array:
    """Return the weight of each input element in each output element, rounded once."""
    matrix = np.zeros((count, size))
    for i in range(count):
        if mode == "nearest":
            matrix[i, i * size // count] = 1
            continue
        place = max(Fraction((2 * i + 1) * size - count, 2 * count), Fraction(0))
        if align_corners:
            place = Fraction(i * (size - 1), max(count - 1, 1))
        first = math.floor(place)
        share = float(place - first)
        matrix[i, first] += 1 - share
        matrix[i, min(first + 1, size - 1)] += share
    return matrix


def interpolate(
    x: Array,
    output_size: Sequence[int],
    mode: str = "nearest",
    align_corners: bool = False,
    data_format: str = "NCHW",
) -> Array:
    images = np.moveaxis(x, -1, 1) if data_format == "NHWC" else x
    rows, columns = (
        weights(size, count, mode, align_corners)
        for size, count in zip(images.shape[2:], output_size, strict=True)
    )
    out = np.einsum("ih,nchw,jw->ncij", rows, images, columns)
    return np.moveaxis(out, 1, -1) if data_format == "NHWC" else out


def resized(x: tuple[int, ...], size: Sequence[int], label: str, **attrs: Any) -> Case:
    n, channels, height, width = x
    shape = (n, height, width, channels) if attrs.get("data_format") == "NHWC" else x
    return Case(
        "interpolate",
        {"x": Random(shape)},
        interpolate,
        {"output_size": list(size), **attrs},
        label=label,
        terms=4,
        magnitude=2.0,
    )


def iou(x: Array, y: Array) -> Array:
    out = np.zeros((len(x), len(y)))
    for i, j in np.ndindex(*out.shape):
        width = max(min(x[i, 2], y[j, 2]) - max(x[i, 0], y[j, 0]), 0)
        height = max(min(x[i, 3], y[j, 3]) - max(x[i, 1], y[j, 1]), 0)
        areas = [max(b[2] - b[0], 0) * max(b[3] - b[1], 0) for b in (x[i], y[j])]
        union = sum(areas) - width * height
        out[i, j] = width * height / union if union else 0.0
    return out


def max_unpool2d(
    x: Array, index: Array, output_size: Sequence[int], data_format: str = "NCHW"
) -> Array:
    images, places = (
        np.moveaxis(array, -1, 1) if data_format == "NHWC" else array for array in (x, index)
    )
    out = np.zeros((*images.shape[:2], *output_size))
    for at in np.ndindex(*images.shape):
        out[(*at[:2], *divmod(int(places[at]), output_size[1]))] = images[at]
    return np.moveaxis(out, 1, -1) if data_format == "NHWC" else out


def unpooled(x: tuple[int, ...], size: Sequence[int], label: str, **attrs: Any) -> Case:
    n, channels, height, width = x
    rng = np.random.default_rng(1)
    places = [rng.permutation(math.prod(size))[: height * width] for _ in range(n * channels)]
    index = np.array(places, int).reshape(x)
    shape = x
    if attrs.get("data_format") == "NHWC":
        shape, index = (n, height, width, channels), np.moveaxis(index, 1, -1)
    return Case(
        "max_unpool2d",
        {"x": Random(shape), "index": Values(index, "int32")},
        max_unpool2d,
        {"output_size": list(size), **attrs},
        label=label,
        ulps=0,
    )


BOXES = [[0.0, 0.0, 2.0, 2.0], [1.0, 0.5, 3.0, 1.75], [-1.0, -1.0, 0.25, 4.0]]

CASES = (
    *(
        resized(x, size, f"{name}-{label}", **attrs)
        for label, attrs in (("nearest", {}), ("bilinear", BILINEAR), ("aligned", ALIGNED))
        for x, size, name in (
            ((2, 3, 3, 4), (6, 8), "doubled"),
            ((2, 3, 6, 7), (3, 2), "smaller"),
            ((1, 2, 3, 5), (7, 4), "odd"),
            ((1, 2, 3, 4), (3, 4), "same"),
            ((1, 1, 1, 1), (3, 2), "one-pixel"),
            ((1, 2, 4, 3), (1, 1), "to-one"),
            ((0, 2, 3, 4), (2, 2), "batch-0"),
        )
    ),
    resized((2, 3, 3, 4), (6, 7), "nhwc-nearest", **NHWC),
    resized((2, 3, 3, 4), (6, 7), "nhwc-bilinear", **BILINEAR, **NHWC),
    resized((2, 3, 5, 4), (3, 7), "nhwc-aligned", **ALIGNED, **NHWC),
    *(resized((1, 1, 2, n), (3, 2 * n + 1), f"width-{n}", **BILINEAR) for n in LENGTHS if n),
    *(
        resized((1, n, 2, 2), (3, 3), f"nhwc-channels-{n}", **BILINEAR, **NHWC)
        for n in LENGTHS
        if n
    ),
    Case(
        "iou",
        {"x": Values(BOXES), "y": Values([[0.5, 0.25, 2.5, 3.0], [0.1, 0.2, 1.9, 1.5]])},
        iou,
        label="plain",
        dtypes=FLOATS,
        ulps=16,
    ),
    Case(
        "iou",
        {"x": Values([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 1.0, 1.0]]), "y": Values([[1.0] * 4])},
        iou,
        label="no-area",
        no_grad="a box without an area is an end of a range",
    ),
    Case("iou", {"x": Random((0, 4)), "y": Random((2, 4))}, iou, label="none"),
    unpooled((2, 3, 2, 3), (4, 6), "plain"),
    unpooled((1, 1, 1, 1), (1, 1), "one-element"),
    unpooled((2, 3, 2, 3), (3, 5), "nhwc", **NHWC),
    unpooled((0, 2, 2, 2), (4, 4), "batch-0"),
    *(unpooled((1, 1, 1, n), (2, n), f"width-{n}") for n in LENGTHS if n),
    Case(
        "max_unpool2d",
        {"x": Values([[[[1.0, 2.0, 3.0]]]]), "index": Values([[[[4, 1, 4]]]], "int32")},
        max_unpool2d,
        {"output_size": [2, 3]},
        label="twice",
        ulps=0,
        no_grad="of two elements with one place only the last one counts",
    ),
)
