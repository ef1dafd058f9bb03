"""Cases of pooling: plain Python, window by window and element by element, is the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from case import LENGTHS, WIDE, Array, Case, Random, Source, Values

NHWC = {"data_format": "NHWC"}
Place = tuple[int, int]


def windows(
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
) -> tuple[list[range], list[range]]:
    """Return the positions that each window covers, down and across, in the padding too."""
    found = []
    for axis in range(2):
        before, after = paddings[2 * axis : 2 * axis + 2]
        end = shape[2 + axis] + after
        placed = [range(-before, kernel[axis] - before)]
        while True:
            begin = placed[-1].start + (strides or kernel)[axis]
            fits = begin + kernel[axis] <= end
            wanted = ceil_mode and placed[-1].stop < end and begin < shape[2 + axis]
            if not (fits or wanted):
                break
            placed.append(range(begin, begin + kernel[axis]))
        found.append(placed)
    return found[0], found[1]


def pooled(
    x: Array, rows: list[range], columns: list[range], find: Callable[..., Any]
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Give what `find` says of each window, of its plane and the places in it."""
    height, width = x.shape[2:]
    for n, c, i, j in np.ndindex(*x.shape[:2], len(rows), len(columns)):
        inside = [
            (row, column)
            for row in rows[i]
            for column in columns[j]
            if 0 <= row < height and 0 <= column < width
        ]
        yield (n, c, i, j), find(x[n, c], inside, rows[i], columns[j])


def _rank(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def max_pool2d(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    paddings: Sequence[int] = (0, 0, 0, 0),
    ceil_mode: bool = False,
    data_format: str = "NCHW",
) -> tuple[Array, Array]:
    """max() keeps the first of equal elements; NaN is above every number."""
    images = x if data_format == "NCHW" else np.moveaxis(x, 3, 1)
    rows, columns = windows(images.shape, kernel, strides, paddings, ceil_mode)

    def find(plane: Array, inside: list[Place], *_: range) -> Place:
        return max(inside, key=lambda place: _rank(plane[place]))

    out = np.zeros((*images.shape[:2], len(rows), len(columns)))
    index = np.zeros(out.shape, int)
    for at, place in pooled(images, rows, columns, find):
        out[at] = images[(*at[:2], *place)]
        index[at] = place[0] * images.shape[3] + place[1]
    if data_format == "NCHW":
        return out, index
    return np.moveaxis(out, 1, 3), np.moveaxis(index, 1, 3)


def avg_pool2d(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    paddings: Sequence[int] = (0, 0, 0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: str = "NCHW",
) -> Array:
    images = x if data_format == "NCHW" else np.moveaxis(x, 3, 1)
    rows, columns = windows(images.shape, kernel, strides, paddings, ceil_mode)
    ends = images.shape[2] + paddings[1], images.shape[3] + paddings[3]

    def find(plane: Array, inside: list[Place], down: range, across: range) -> float:
        count = len(inside)
        if count_include_pad:
            count = sum(i < ends[0] and j < ends[1] for i in down for j in across)
        return math.fsum(plane[place] for place in inside) / count

    out = np.zeros((*images.shape[:2], len(rows), len(columns)))
    for at, mean in pooled(images, rows, columns, find):
        out[at] = mean
    return out if data_format == "NCHW" else np.moveaxis(out, 1, 3)


def adaptive_avg_pool2d(x: Array, output_size: Sequence[int], data_format: str = "NCHW") -> Array:
    images = x if data_format == "NCHW" else np.moveaxis(x, 3, 1)
    rows, columns = (
        [range(math.floor(i * n / m), math.ceil((i + 1) * n / m)) for i in range(m)]
        for n, m in zip(images.shape[2:], output_size, strict=True)
    )

    def find(plane: Array, inside: list[Place], *_: range) -> float:
        return math.fsum(plane[place] for place in inside) / len(inside)

    out = np.zeros((*images.shape[:2], len(rows), len(columns)))
    for at, mean in pooled(images, rows, columns, find):
        out[at] = mean
    return out if data_format == "NCHW" else np.moveaxis(out, 1, 3)


def images(shape: tuple[int, ...], data_format: str = "NCHW", **_: Any) -> Random:
    """Return images of the shape [n, channels, height, width], in the order of axes given."""
    n, channels, height, width = shape
    stored = shape if data_format == "NCHW" else (n, height, width, channels)
    return Random(stored, distinct=True)


def greatest(
    x: tuple[int, ...] | Source, kernel: Sequence[int], label: str, no_grad: str = "", **attrs: Any
) -> Case:
    given = {"x": images(x, **attrs) if isinstance(x, tuple) else x}
    attrs = {"kernel": list(kernel), **attrs}
    return Case("max_pool2d", given, max_pool2d, attrs, label=label, ulps=0, no_grad=no_grad)


def average(x: tuple[int, ...], kernel: Sequence[int], label: str, **attrs: Any) -> Case:
    given = {"x": images(x, **attrs)}
    terms = kernel[0] * kernel[1]
    attrs = {"kernel": list(kernel), **attrs}
    return Case("avg_pool2d", given, avg_pool2d, attrs, label=label, terms=terms)


def adaptive(x: tuple[int, ...], size: Sequence[int], label: str, **attrs: Any) -> Case:
    given = {"x": images(x, **attrs)}
    attrs = {"output_size": list(size), **attrs}
    terms = max(x[2] * x[3], 1)
    return Case("adaptive_avg_pool2d", given, adaptive_avg_pool2d, attrs, label=label, terms=terms)


ASYMMETRIC: dict[str, Any] = {"strides": [2, 1], "paddings": [1, 2, 0, 1]}
CEIL: dict[str, Any] = {"ceil_mode": True}

# Shape, kernel, name and attributes of what both kinds of windows must get right.
SHARED: tuple[tuple[tuple[int, ...], Sequence[int], str, dict[str, Any]], ...] = (
    ((2, 3, 4, 6), (2, 2), "plain", {}),
    ((1, 1, 1, 1), (1, 1), "one-element", {}),
    ((2, 2, 3, 4), (3, 4), "whole-plane", {}),
    ((2, 2, 5, 5), (2, 2), "rest", {}),
    ((2, 2, 6, 5), (3, 2), "kernel-3x2", {}),
    ((1, 2, 6, 5), (3, 3), "overlapping", {"strides": [1, 1]}),
    ((1, 2, 7, 7), (3, 3), "stride-2", {"strides": [2, 2], "paddings": [1, 1, 1, 1]}),
    ((1, 2, 7, 6), (2, 2), "stride-beyond-kernel", {"strides": [3, 4]}),
    ((1, 2, 4, 5), (3, 3), "top-left", {"strides": [2, 2], "paddings": [2, 0, 1, 0]}),
    ((1, 2, 4, 5), (3, 3), "bottom-right", {"strides": [2, 2], "paddings": [0, 2, 0, 1]}),
    ((1, 1, 1, 2), (3, 3), "kernel-beyond-image", {"paddings": [1, 1, 1, 0]}),
    ((1, 2, 5, 6), (2, 2), "ceil", CEIL),
    ((1, 1, 5, 6), (2, 2), "ceil-stride-3", {"strides": [3, 3], **CEIL}),
    ((1, 1, 2, 3), (1, 1), "ceil-drops", {"strides": [3, 4], **CEIL}),
    ((1, 1, 4, 4), (3, 3), "ceil-padded", {"strides": [2, 2], "paddings": [0, 1, 1, 0], **CEIL}),
    ((1, 1, 3, 3), (2, 2), "ceil-in-padding", {"paddings": [1, 1, 1, 1], **CEIL}),
    ((2, 2, 5, 6), (3, 2), "everything", {**ASYMMETRIC, **CEIL}),
    ((2, 3, 4, 6), (2, 2), "nhwc", NHWC),
    ((2, 3, 5, 6), (3, 2), "nhwc-everything", {**ASYMMETRIC, **CEIL, **NHWC}),
    *(((1, n, 2, 4), (2, 2), f"channels-{n}", {}) for n in LENGTHS),
    *(((1, n, 2, 4), (2, 2), f"nhwc-channels-{n}", NHWC) for n in LENGTHS),
    *(((1, 1, 2, 2 * n), (2, 2), f"width-{n}", {}) for n in LENGTHS if n),
    *(((1, 1, 2, n + 2), (2, 3), f"overlapping-{n}", {"strides": [1, 1]}) for n in LENGTHS if n),
    ((0, 2, 4, 4), (2, 2), "batch-0", {}),
    ((0, 2, 4, 4), (2, 2), "nhwc-batch-0", NHWC),
)

TIES = Values(
    [
        [
            [[1.0, 1.0, 0.0, -0.0], [1.0, 1.0, -0.0, 0.0], [2.0, 3.0, -1.0, -1.0]],
            [[0.0, 5.0, 5.0, 5.0], [5.0, 5.0, 0.0, 5.0], [5.0, 5.0, 5.0, 5.0]],
        ]
    ]
)
SPECIAL = Values(
    [
        [
            [[np.nan, 1.0, -np.inf, -np.inf], [2.0, np.nan, -np.inf, -np.inf]],
            [[np.inf, np.inf, 1.0, np.nan], [np.nan, 0.0, np.nan, 2.0]],
        ]
    ]
)

CASES = (
    *(greatest(x, kernel, label, **attrs) for x, kernel, label, attrs in SHARED),
    *(
        greatest(x, (2, 2), label, "equal or undefined", strides=[1, 1], paddings=[1, 0, 1, 1])
        for x, label in ((TIES, "ties"), (SPECIAL, "special"))
    ),
    greatest(SPECIAL, (1, 2), "special-nhwc", "equal or undefined", strides=[1, 1], **NHWC),
    *(average(x, kernel, label, **attrs) for x, kernel, label, attrs in SHARED),
    *(
        average(x, kernel, f"{label}-counted", count_include_pad=True, **attrs)
        for x, kernel, label, attrs in SHARED
        if "paddings" in attrs
    ),
    Case(
        "avg_pool2d",
        {"x": SPECIAL},
        avg_pool2d,
        {"kernel": [1, 2], "strides": [1, 1]},
        dtypes=WIDE,
        label="special",
        no_grad="infinite or undefined there",
    ),
    adaptive((2, 3, 4, 6), (2, 3), "divides"),
    adaptive((2, 3, 5, 7), (2, 3), "overlaps"),
    adaptive((2, 3, 5, 7), (1, 1), "plane"),
    adaptive((2, 2, 2, 3), (5, 4), "repeats"),
    adaptive((2, 2, 3, 4), (3, 4), "same"),
    adaptive((1, 1, 1, 1), (1, 1), "one-element"),
    adaptive((2, 3, 5, 7), (2, 3), "nhwc", **NHWC),
    adaptive((2, 3, 5, 7), (1, 1), "nhwc-plane", **NHWC),
    *(adaptive((1, n, 2, 3), (1, 1), f"channels-{n}") for n in LENGTHS),
    *(adaptive((1, n, 2, 3), (1, 2), f"nhwc-channels-{n}", **NHWC) for n in LENGTHS),
    *(adaptive((1, 1, 2, n), (1, 1), f"width-{n}") for n in LENGTHS if n),
    adaptive((0, 2, 4, 4), (2, 2), "batch-0"),
)
