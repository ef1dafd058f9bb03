"""Test cases of grid_sample, affine_grid, unfold, fold, deform_conv2d, lp_pool and max_unpool.

max_unpool has 1 or 3 spatial axes here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from case import WIDE, Array, Case, Random, Values

from every_case import EVERY


def folded(place: float, low: float, high: float) -> float:
    """Reflect a position at both ends."""
    span = high - low
    if span <= 0:
        return 0.0
    while not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return place


def held(place: float, size: int, padding: str, align: bool) -> float:
    if padding == "zeros":
        return place
    if math.isnan(place):
        return 0.0
    if padding == "reflection":
        if math.isinf(place):
            return 0.0
        place = folded(place, *((0, size - 1) if align else (-0.5, size - 0.5)))
    return min(max(place, 0.0), size - 1.0)


def cubic(d: float) -> float:
    a, d = -0.75, abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def shares(
    place: float, size: int, mode: str, padding: str, align: bool
) -> list[tuple[float, float]]:
    """Return the pixels of an axis read at a position, and their weights."""
    if mode == "bicubic":
        if not math.isfinite(place):
            return []
        first = math.floor(place)
        return [
            (held(first + k, size, padding, align), cubic(place - first - k)) for k in range(-1, 3)
        ]
    place = held(place, size, padding, align)
    if not math.isfinite(place):
        return []
    if mode == "nearest":
        return [(float(np.rint(place)), 1.0)]
    first = math.floor(place)
    return [(first, 1 - (place - first)), (first + 1, place - first)]


def grid_sample(
    x: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    normalized: bool = True,
) -> Array:
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(grid.shape[:-1]):
        axes = []
        for size, c in zip(sizes, grid[at][::-1], strict=True):
            place = c
            if normalized:
                place = (c + 1) / 2 * (size - 1) if align_corners else ((c + 1) * size - 1) / 2
            taps = shares(place, size, mode, padding_mode, align_corners)
            axes.append([(p, share) for p, share in taps if 0 <= p < size and share])
        for taps in itertools.product(*axes):
            pixel = tuple(int(p) for p, _ in taps)
            share = math.prod(share for _, share in taps)
            out[(at[0], slice(None), *at[1:])] += x[(at[0], slice(None), *pixel)] * share
    return out


def sampled(label: str, shape: tuple[int, ...], places: tuple[int, ...], **attrs: Any) -> Case:
    rank = len(shape) - 2
    # The formula has a kink at pixel positions, so the test positions keep their distance.
    rng = np.random.default_rng(len(label))
    sizes = shape[:1:-1]
    whole = rng.integers(-2, 4, (shape[0], *places, rank)) + rng.uniform(0.1, 0.4, (*places, rank))
    grid = whole
    if attrs.get("normalized", True):
        grid = (2 * whole + 1) / np.array(sizes) - 1
        if attrs.get("align_corners"):
            grid = 2 * whole / np.maximum(np.array(sizes) - 1, 1) - 1
    return Case(
        "grid_sample",
        {"x": Random(shape), "grid": Values(grid)},
        grid_sample,
        attrs,
        label=label,
        ulps=32,
        terms=16,
        magnitude=4.0,
    )


def modes() -> list[Case]:
    """Return every pair of mode and padding; if all cases are requested, with both alignments."""
    kinds = ("bilinear", "nearest", "bicubic")
    paddings = ("zeros", "border", "reflection")
    cases = []
    for i, j, align in itertools.product(range(3), range(3), (False, True)):
        if not EVERY and align != bool((i + j) % 2):
            continue
        attrs = {"mode": kinds[i], "padding_mode": paddings[j], "align_corners": align}
        label = f"{kinds[i]}-{paddings[j]}{'-aligned' if align else ''}"
        cases.append(sampled(label, (2, 2, 3, 4), (3, 2), **attrs))
        if kinds[i] != "bicubic" and (EVERY or i == j):
            cases.append(sampled(f"volume-{label}", (1, 2, 2, 3, 3), (2, 1, 3), **attrs))
    return cases


NAN, INF = math.nan, math.inf
FAR = [[[[NAN, 0.2], [INF, 0.2], [-INF, -0.3], [30.0, 0.1], [0.1, NAN]]]]


def affine_grid(theta: Array, output_size: Sequence[int], align_corners: bool = False) -> Array:
    rank = len(output_size)
    out = np.zeros((len(theta), *output_size, rank))
    for at in np.ndindex(*output_size):
        place = [
            0.0 if n == 1 else (2 * i / (n - 1) - 1 if align_corners else (2 * i + 1) / n - 1)
            for i, n in zip(at, output_size, strict=True)
        ]
        out[(slice(None), *at)] = theta @ np.array([*place[::-1], 1.0])
    return out


def unfold(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
) -> Array:
    top, bottom, left, right = paddings
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    columns = [
        padded[
            :,
            :,
            y : y + reach[0] : dilations[0],
            z : z + reach[1] : dilations[1],
        ].reshape(len(x), x.shape[1] * math.prod(kernel))
        for y in range(0, padded.shape[2] - reach[0] + 1, strides[0])
        for z in range(0, padded.shape[3] - reach[1] + 1, strides[1])
    ]
    return np.stack(columns, axis=-1)


def fold(x: Array, output_size: Sequence[int], **windows: Any) -> Array:
    """Sum, for each pixel of the image, the column elements that `unfold` copied from it."""
    area = math.prod(windows["kernel"])
    n, channels = len(x), x.shape[1] // area
    out = np.zeros((n, channels, *output_size))
    for pixel in np.ndindex(*output_size):
        one = np.zeros((1, 1, *output_size))
        one[(0, 0, *pixel)] = 1.0
        marks = unfold(one, **windows)[0]
        for c in range(channels):
            out[(slice(None), c, *pixel)] = (x[:, c * area : (c + 1) * area] * marks).sum((1, 2))
    return out


WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {"kernel": [2, 3]},
    "strided": {"kernel": [2, 2], "strides": [2, 3]},
    "padded": {"kernel": [3, 2], "paddings": [2, 1, 0, 2], "dilations": [1, 2]},
    "whole": {"kernel": [4, 5]},
}


def columns() -> list[Case]:
    cases = []
    for label, attrs in WINDOWS.items():
        shape = ({"whole": 0, "strided": 1}.get(label, 2), 3, 4, 5)
        made = unfold(np.zeros(shape), **attrs).shape
        cases.append(Case("unfold", {"x": Random(shape)}, unfold, attrs, label=label, ulps=0))
        size = {"output_size": [4, 5]}
        cases.append(
            Case("fold", {"x": Random(made)}, fold, {**attrs, **size}, label=label, terms=9)
        )
    attrs = WINDOWS["padded"]
    shape, size = (2, 3, 0, 5), {"output_size": [0, 5]}
    made = unfold(np.zeros(shape), **attrs).shape
    return [
        *cases,
        Case("unfold", {"x": Random(shape)}, unfold, attrs, label="no-rows", ulps=0),
        Case("fold", {"x": Random(made)}, fold, {**attrs, **size}, label="no-rows"),
    ]


def deform_conv2d(
    x: Array,
    weight: Array,
    offset: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    offset_groups: int = 1,
) -> Array:
    n, channels = x.shape[:2]
    filters, depth, kh, kw = weight.shape
    out = np.zeros((n, filters, *offset.shape[2:]))
    for image, f, row, column in np.ndindex(*out.shape):
        for d, i, j in np.ndindex(depth, kh, kw):
            c = f // (filters // groups) * depth + d
            k = (c // (channels // offset_groups) * kh + i) * kw + j
            y = (
                row * strides[0]
                - paddings[0]
                + i * dilations[0]
                + offset[image, 2 * k, row, column]
            )
            z = column * strides[1] - paddings[2] + j * dilations[1]
            z += offset[image, 2 * k + 1, row, column]
            place = np.array([[[[z, y]]]])
            value = grid_sample(x[image : image + 1, c : c + 1], place, normalized=False).item()
            factor = 1.0 if mask is None else mask[image, k, row, column]
            out[image, f, row, column] += value * factor * weight[f, d, i, j]
        out[image, f, row, column] += 0.0 if bias is None else bias[f]
    return out


def deformed(label: str, n: int = 2, **attrs: Any) -> Case:
    groups, kernel = attrs.get("offset_groups", 1), (2, 2)
    windows = unfold(
        np.zeros((1, 1, 4, 3)),
        kernel,
        **{name: value for name, value in attrs.items() if "groups" not in name},
    ).shape[2]
    width = 3 if "paddings" in attrs else 2
    shape = (n, 8 * groups, windows // width, width)
    rng = np.random.default_rng(7)
    offset = rng.integers(-1, 2, shape) + rng.uniform(0.1, 0.4, shape)
    inputs: dict[str, Any] = {
        "x": Random((n, 4, 4, 3)),
        "weight": Random((4, 4 // attrs.get("groups", 1), *kernel)),
        "offset": Values(offset),
    }
    if label != "plain":
        inputs["mask"] = Random((n, 4 * groups, *shape[2:]), 0.0, 1.0)
        inputs["bias"] = Random((4,))
    return Case(
        "deform_conv2d",
        inputs,
        deform_conv2d,
        attrs,
        label=label,
        ulps=32,
        terms=16,
        magnitude=8.0,
    )


def lp_pool(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    paddings: Sequence[int] = (),
    ceil_mode: bool = False,
    p: float = 2.0,
) -> Array:
    rank = len(kernel)
    steps, pads = strides or kernel, paddings or (0,) * 2 * rank
    wide = [(0, 0), (0, 0)] + [(pads[2 * i], pads[2 * i + 1] + kernel[i]) for i in range(rank)]
    padded = np.abs(np.pad(x, wide)) ** p
    counts = []
    for i in range(rank):
        room = x.shape[2 + i] + pads[2 * i] + pads[2 * i + 1] - kernel[i]
        counts.append((-(-room // steps[i]) if ceil_mode else room // steps[i]) + 1)
    out = np.zeros((*x.shape[:2], *counts))
    for window in np.ndindex(*counts):
        begins = [w * s for w, s in zip(window, steps, strict=True)]
        part = tuple(slice(b, b + k) for b, k in zip(begins, kernel, strict=True))
        axes = tuple(range(2, 2 + rank))
        out[(slice(None), slice(None), *window)] = padded[(..., *part)].sum(axes) ** (1 / p)
    return out


def pooled(label: str, shape: tuple[int, ...], **attrs: Any) -> Case:
    return Case(
        f"lp_pool{len(shape) - 2}d",
        {"x": Random(shape, avoid=(0.0,), gap=0.2)},
        lp_pool,
        attrs,
        label=label,
        dtypes=("float16", "float32", "float64"),
        terms=9,
        magnitude=2.0,
    )


def unpool(x: Array, index: Array, output_size: Sequence[int]) -> Array:
    out = np.zeros((*x.shape[:2], math.prod(output_size)))
    for at in np.ndindex(*x.shape):
        out[(*at[:2], index[at])] = x[at]
    return out.reshape(*x.shape[:2], *output_size)


def unpooled(label: str, shape: tuple[int, ...], size: Sequence[int]) -> Case:
    count = math.prod(shape[2:])
    rng = np.random.default_rng(3)
    planes = [rng.permutation(math.prod(size))[:count] for _ in range(shape[0] * shape[1])]
    index = np.array(planes, int).reshape(shape)
    return Case(
        f"max_unpool{len(size)}d",
        {"x": Random(shape), "index": Values(index, "int32")},
        unpool,
        {"output_size": list(size)},
        label=label,
        ulps=0,
    )


CASES = (
    *modes(),
    sampled("pixels", (1, 3, 3, 4), (2, 3), normalized=False),
    sampled("long", (1, 1, 4, 5), (1, 70)),
    sampled("no-channels", (1, 0, 3, 3), (2, 2)),
    sampled("no-places", (1, 2, 3, 3), (0, 2)),
    *(
        Case(
            "grid_sample",
            {"x": Random((1, 2, 3, 4)), "grid": Values(FAR)},
            grid_sample,
            {"padding_mode": padding, "mode": mode},
            label=f"far-{mode}-{padding}",
            dtypes=WIDE,
            ulps=32,
            no_grad="infinite places",
        )
        for mode, padding in (
            ("bilinear", "zeros"),
            ("nearest", "border"),
            ("bilinear", "reflection"),
        )
    ),
    *(
        Case(
            "affine_grid",
            {"theta": Random((n, len(size), len(size) + 1))},
            affine_grid,
            {"output_size": size, "align_corners": align},
            label=f"{'-'.join(map(str, size))}{'-aligned' if align else ''}",
            terms=4,
            magnitude=4.0,
        )
        for n, size, align in ((2, [3, 4], False), (2, [2, 1, 3], True), (0, [1, 2], False))
    ),
    *columns(),
    deformed("plain"),
    deformed("groups", n=1, groups=2, offset_groups=2, paddings=[1, 0, 1, 0]),
    deformed("no-images", n=0),
    deformed("strided", strides=[2, 1], dilations=[1, 1]),
    pooled("lines", (2, 3, 7), kernel=[3], strides=[2], paddings=[1, 0]),
    pooled("images", (2, 2, 4, 5), kernel=[2, 3], p=3.0),
    pooled("ceil", (1, 2, 4, 5), kernel=[3, 2], strides=[2, 2], ceil_mode=True, p=1.0),
    *(pooled("empty", (0, 2, *[2] * rank), kernel=[2] * rank) for rank in (1, 2, 3)),
    pooled("long", (1, 1, 9), kernel=[2], p=3.0),
    pooled("flat", (1, 1, 2, 2, 3), kernel=[1, 2, 2], p=1.0),
    pooled("volumes", (1, 2, 3, 2, 4), kernel=[2, 2, 2]),
    *(unpooled("empty", (0, 2, *[1] * rank), [2] * rank) for rank in (1, 3)),
    *(unpooled("one", (1, 1, *[1] * rank), [2] * rank) for rank in (1, 3)),
    unpooled("lines", (2, 3, 3), [7]),
    unpooled("volumes", (1, 2, 2, 1, 2), [2, 3, 4]),
)
