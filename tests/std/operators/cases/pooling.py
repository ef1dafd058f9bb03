"""Test cases of pooling; the reference is plain Python, window by window and element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from case import LENGTHS, WIDE, Array, Case, Random, Source, Values

NHWC = {"data_format": "NHWC"}
NLC = {"data_format": "NLC"}
NDHWC = {"data_format": "NDHWC"}
Place = tuple[int, ...]


def windows(
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
    dilations: Sequence[int],
) -> list[list[range]]:
    """Return the positions that each window covers, axis by axis, including the padding."""
    found = []
    for axis in range(len(kernel)):
        before, after = (paddings or [0, 0] * len(kernel))[2 * axis : 2 * axis + 2]
        end, step = shape[2 + axis] + after, (dilations or [1] * len(kernel))[axis]
        reach = (kernel[axis] - 1) * step + 1
        placed = [range(-before, reach - before, step)]
        while True:
            begin = placed[-1].start + (strides or kernel)[axis]
            fits = begin + reach <= end
            wanted = ceil_mode and placed[-1].start + reach < end and begin < shape[2 + axis]
            if not (fits or wanted):
                break
            placed.append(range(begin, begin + reach, step))
        found.append(placed)
    return found


def pooled(
    x: Array, axes: list[list[range]], find: Callable[..., Any]
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Apply `find` to each window, given its plane and indices."""
    sizes = x.shape[2:]
    for at in np.ndindex(*x.shape[:2], *map(len, axes)):
        window = [places[i] for places, i in zip(axes, at[2:], strict=True)]
        inside = [
            place
            for place in product(*window)
            if all(0 <= i < size for i, size in zip(place, sizes, strict=True))
        ]
        yield at, find(x[at[:2]], inside, window)


def _rank(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def max_pool(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    paddings: Sequence[int] = (),
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    dilations: Sequence[int] = (),
) -> tuple[Array, Array]:
    shape = first_channels(x, data_format).shape
    axes = windows(shape, kernel, strides, paddings, ceil_mode, dilations)
    return greatest_of(x, axes, data_format)


def greatest_of(x: Array, axes: list[list[range]], data_format: str) -> tuple[Array, Array]:
    """Pool maxima and indices; max() keeps the first of equal elements, and NaN exceeds all."""
    images = first_channels(x, data_format)

    def find(plane: Array, inside: list[Place], _: list[range]) -> Place:
        return max(inside, key=lambda place: _rank(plane[place]))

    out = np.zeros((*images.shape[:2], *map(len, axes)))
    index = np.zeros(out.shape, int)
    for at, place in pooled(images, axes, find):
        out[at] = images[(*at[:2], *place)]
        index[at] = np.ravel_multi_index(place, images.shape[2:])
    return last_channels(out, data_format), last_channels(index, data_format)


def first_channels(x: Array, data_format: str) -> Array:
    return np.moveaxis(x, -1, 1) if data_format.endswith("C") else x


def last_channels(x: Array, data_format: str) -> Array:
    return np.moveaxis(x, 1, -1) if data_format.endswith("C") else x


def avg_pool(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    paddings: Sequence[int] = (),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: str = "NCHW",
    dilations: Sequence[int] = (),
    divisor: int = 0,
) -> Array:
    images = first_channels(x, data_format)
    axes = windows(images.shape, kernel, strides, paddings, ceil_mode, dilations)
    ends = [
        size + after
        for size, after in zip(images.shape[2:], paddings[1::2] or [0] * len(kernel), strict=True)
    ]

    def find(plane: Array, inside: list[Place], window: list[range]) -> float:
        count = len(inside)
        if count_include_pad:
            count = math.prod(
                sum(i < end for i in places) for places, end in zip(window, ends, strict=True)
            )
        return math.fsum(plane[place] for place in inside) / (divisor or count)

    out = np.zeros((*images.shape[:2], *map(len, axes)))
    for at, mean in pooled(images, axes, find):
        out[at] = mean
    return last_channels(out, data_format)


def bins(sizes: Sequence[int], output_size: Sequence[int]) -> list[list[range]]:
    return [
        [range(math.floor(i * n / m), math.ceil((i + 1) * n / m)) for i in range(m)]
        for n, m in zip(sizes, output_size, strict=True)
    ]


def adaptive_max_pool(
    x: Array, output_size: Sequence[int], data_format: str = "NCHW"
) -> tuple[Array, Array]:
    sizes = first_channels(x, data_format).shape[2:]
    return greatest_of(x, bins(sizes, output_size), data_format)


def adaptive_avg_pool(x: Array, output_size: Sequence[int], data_format: str = "NCHW") -> Array:
    images = first_channels(x, data_format)
    axes = bins(images.shape[2:], output_size)

    def find(plane: Array, inside: list[Place], _: list[range]) -> float:
        return math.fsum(plane[place] for place in inside) / len(inside)

    out = np.zeros((*images.shape[:2], *map(len, axes)))
    for at, mean in pooled(images, axes, find):
        out[at] = mean
    return last_channels(out, data_format)


def images(shape: tuple[int, ...], data_format: str = "NCHW", **_: Any) -> Random:
    """Return images with shape [n, channels, *spatial], in the given axis order."""
    n, channels, *sizes = shape
    stored = (n, *sizes, channels) if data_format.endswith("C") else shape
    return Random(stored, distinct=True)


def greatest(
    x: tuple[int, ...] | Source, kernel: Sequence[int], label: str, no_grad: str = "", **attrs: Any
) -> Case:
    given = {"x": images(x, **attrs) if isinstance(x, tuple) else x}
    op_type = f"max_pool{len(kernel)}d"
    attrs = {"kernel": list(kernel), **attrs}
    return Case(op_type, given, max_pool, attrs, label=label, ulps=0, no_grad=no_grad)


def average(x: tuple[int, ...], kernel: Sequence[int], label: str, **attrs: Any) -> Case:
    given = {"x": images(x, **attrs)}
    terms, op_type = math.prod(kernel), f"avg_pool{len(kernel)}d"
    attrs = {"kernel": list(kernel), **attrs}
    return Case(op_type, given, avg_pool, attrs, label=label, terms=terms)


def adaptive(x: tuple[int, ...], size: Sequence[int], label: str, **attrs: Any) -> Case:
    given = {"x": images(x, **attrs)}
    attrs = {"output_size": list(size), **attrs}
    terms, op_type = max(math.prod(x[2:]), 1), f"adaptive_avg_pool{len(size)}d"
    return Case(op_type, given, adaptive_avg_pool, attrs, label=label, terms=terms)


def adaptive_greatest(x: tuple[int, ...], size: Sequence[int], label: str, **attrs: Any) -> Case:
    given = {"x": images(x, **attrs)}
    attrs = {"output_size": list(size), **attrs}
    op_type = f"adaptive_max_pool{len(size)}d"
    return Case(op_type, given, adaptive_max_pool, attrs, label=label, ulps=0)


ASYMMETRIC: dict[str, Any] = {"strides": [2, 1], "paddings": [1, 2, 0, 1]}
DEEP: dict[str, Any] = {"strides": [2, 1, 3], "paddings": [1, 0, 0, 1, 1, 1]}
CEIL: dict[str, Any] = {"ceil_mode": True}
DILATED: dict[str, Any] = {"dilations": [2, 3], "strides": [1, 2], "paddings": [3, 1, 2, 3]}

# Shape, kernel, name and attributes for both kinds of windows.
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
    ((2, 3, 7), (2,), "plain", {}),
    ((1, 1, 1), (1,), "one-element", {}),
    ((2, 3, 8), (3,), "everything", {"strides": [2], "paddings": [1, 2], **CEIL}),
    ((2, 3, 8), (3,), "nlc-everything", {"strides": [2], "paddings": [1, 0], **CEIL, **NLC}),
    *(((1, 2, n + 1), (2,), f"length-{n}", {"strides": [1]}) for n in LENGTHS if n),
    ((0, 2, 4), (2,), "batch-0", {}),
    ((2, 2, 4, 5, 4), (2, 3, 2), "plain", {}),
    ((1, 1, 1, 1, 1), (1, 1, 1), "one-element", {}),
    ((1, 2, 3, 2, 4), (3, 2, 4), "whole", {}),
    ((1, 2, 5, 4, 4), (2, 2, 2), "everything", {**DEEP, **CEIL}),
    ((1, 3, 5, 4, 4), (2, 2, 2), "ndhwc-everything", {**DEEP, **CEIL, **NDHWC}),
    *(((1, 1, 2, 2, 2 * n), (2, 2, 2), f"width-{n}", {}) for n in LENGTHS if n),
    *(((1, n, 2, 1, 2), (2, 1, 2), f"ndhwc-channels-{n}", NDHWC) for n in LENGTHS),
    ((0, 2, 2, 2, 2), (2, 2, 2), "batch-0", {}),
    ((2, 2, 7, 6), (3, 2), "dilated", {"dilations": [2, 3], "strides": [1, 2]}),
    ((1, 2, 7, 8), (3, 2), "dilated-padded", DILATED),
    ((1, 2, 7, 8), (3, 2), "dilated-ceil", {**DILATED, "strides": [3, 4], **CEIL}),
    ((1, 3, 7, 8), (3, 2), "dilated-nhwc", {**DILATED, **CEIL, **NHWC}),
    *(
        ((1, 1, 2, n + 6), (2, 3), f"dilated-{n}", {"strides": [1, 1], "dilations": [1, 3]})
        for n in LENGTHS
        if n
    ),
    ((2, 3, 8), (3,), "dilated", {"strides": [2], "paddings": [3, 2], "dilations": [2], **CEIL}),
    ((1, 2, 5, 4, 6), (2, 2, 2), "dilated", {**DEEP, "dilations": [2, 1, 3], **CEIL}),
    ((1, 2, 5, 4, 6), (2, 2, 2), "dilated-ndhwc", {**DEEP, "dilations": [2, 1, 3], **NDHWC}),
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
    average((2, 2, 5, 6), (3, 2), "divisor", divisor=5, **ASYMMETRIC, **CEIL),
    average((2, 3, 5, 6), (3, 2), "divisor-nhwc", divisor=5, **ASYMMETRIC, **NHWC),
    average((2, 2, 7, 8), (3, 2), "divisor-dilated", divisor=2, **DILATED),
    average((2, 3, 8), (3,), "divisor", divisor=7),
    average((1, 2, 3, 2, 4), (3, 2, 2), "divisor", divisor=1),
    Case(
        "avg_pool2d",
        {"x": SPECIAL},
        avg_pool,
        {"kernel": [1, 2], "strides": [1, 1]},
        dtypes=WIDE,
        label="special",
        no_grad="infinite or undefined there",
    ),
    *(
        Case(
            op,
            {"x": Random((1, 2, 4, 5), -9, 9)},
            expected,
            attrs,
            dtypes=("int32", "uint8"),
            label="whole",
            no_grad="integers",
        )
        for op, expected, attrs in (
            ("max_pool2d", max_pool, {"kernel": [2, 3], "paddings": [1, 0, 1, 1]}),
            ("avg_pool2d", avg_pool, {"kernel": [2, 3], "paddings": [1, 0, 1, 1]}),
            ("adaptive_max_pool2d", adaptive_max_pool, {"output_size": [2, 3]}),
            ("adaptive_avg_pool2d", adaptive_avg_pool, {"output_size": [2, 3]}),
        )
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
    adaptive_greatest((2, 3, 4, 6), (2, 3), "divides"),
    adaptive_greatest((2, 3, 5, 7), (2, 3), "overlaps"),
    adaptive_greatest((2, 3, 5, 7), (1, 1), "plane"),
    adaptive_greatest((2, 2, 2, 3), (5, 4), "repeats"),
    adaptive_greatest((2, 3, 5, 7), (2, 3), "nhwc", **NHWC),
    *(adaptive_greatest((1, n, 2, 3), (1, 2), f"nhwc-channels-{n}", **NHWC) for n in LENGTHS),
    *(adaptive_greatest((1, 1, 2, n), (1, 1), f"width-{n}") for n in LENGTHS if n),
    adaptive_greatest((1, 2, 3, 36), (2, 18), "many-bins"),
    adaptive_greatest((0, 2, 4, 4), (2, 2), "batch-0"),
    *(
        case
        for make in (adaptive, adaptive_greatest)
        for case in (
            make((2, 3, 4, 2, 6), (2, 1, 3), "divides"),
            make((1, 2, 5, 3, 7), (2, 2, 3), "overlaps"),
            make((1, 2, 2, 3, 2), (3, 1, 4), "repeats"),
            make((1, 3, 5, 3, 4), (2, 2, 3), "ndhwc", **NDHWC),
            *(make((1, 1, 2, 3, n), (1, 2, 1), f"width-{n}") for n in LENGTHS if n),
            *(make((1, n, 2, 1, 3), (1, 1, 2), f"ndhwc-channels-{n}", **NDHWC) for n in LENGTHS),
            make((0, 2, 4, 4, 2), (2, 2, 1), "batch-0"),
        )
    ),
)
