"""Inputs of operators that sample images or unfold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def gridded(draw: Draw) -> Drawn:
    """Draw small images, and positions far from pixel borders, where gradients jump."""
    sizes = tuple(int(size) for size in draw.rng.integers(2, 6, 2))
    n = int(draw.rng.integers(1, 3))
    if draw.rows:
        n, count = draw.length, 3
    else:
        count = draw.length
    whole = draw.rng.integers(-1, 5, (n, 2, count, 2)) + draw.rng.uniform(
        0.1, 0.4, (n, 2, count, 2)
    )
    grid = whole
    if draw.attrs["normalized"]:
        extents = np.array(sizes[::-1])
        grid = (2 * whole + 1) / extents - 1
        if draw.attrs["align_corners"]:
            grid = 2 * whole / (extents - 1) - 1
    draw.drops_nan = "unread pixels; a NaN position reads none"
    x = draw.floats((n, draw.other_length(), *sizes))
    return {"x": x, "grid": grid.astype(x.dtype)}, draw.attrs


def maps(draw: Draw) -> Drawn:
    """Draw affine maps of images."""
    size = [int(n) for n in draw.rng.integers(1, 5, 2)]
    return {"theta": draw.floats((draw.length, 2, 3))}, {**draw.attrs, "output_size": size}


def _windows(draw: Draw) -> tuple[dict[str, Any], list[int]]:
    """Return window attributes, and an image size with room for some windows."""
    rng = draw.rng
    kernel, strides, dilations = (
        [int(n) for n in rng.integers(1, 3, 2)] for _ in ("kernel", "strides", "dilations")
    )
    windows = {"kernel": kernel, "strides": strides, "dilations": dilations}
    windows["paddings"] = [int(n) for n in rng.integers(0, 2, 4)]
    return windows, [int(n) for n in rng.integers(3, 6, 2)]


def unfolded(draw: Draw) -> Drawn:
    """Draw images with room for windows."""
    windows, sizes = _windows(draw)
    draw.drops_nan = "strides may skip an element"
    n, channels = draw.length, draw.other_length()
    return {"x": draw.floats((n, channels, *sizes))}, {**draw.attrs, **windows}


def folded(draw: Draw) -> Drawn:
    """Draw columns, each of which contains one window of an image, as in im2col."""
    windows, sizes = _windows(draw)
    counts = _count(windows, sizes)
    area = windows["kernel"][0] * windows["kernel"][1]
    shape = (draw.length, draw.other_length() * area, counts[0] * counts[1])
    draw.drops_nan = "the padding is not read"
    return {"x": draw.floats(shape)}, {**draw.attrs, **windows, "output_size": sizes}


def _count(windows: Mapping[str, list[int]], sizes: list[int]) -> list[int]:
    counts = []
    for i in range(2):
        padded = sizes[i] + sum(windows["paddings"][2 * i : 2 * i + 2])
        reach = (windows["kernel"][i] - 1) * windows["dilations"][i] + 1
        counts.append((padded - reach) // windows["strides"][i] + 1)
    return counts


def deformed(draw: Draw) -> Drawn:
    """Draw offsets between pixels, where gradients do not jump."""
    windows, sizes = _windows(draw)
    counts, kernel = _count(windows, sizes), windows["kernel"]
    groups, parts = int(draw.rng.integers(1, 3)), int(draw.rng.integers(1, 3))
    n, area = draw.length, kernel[0] * kernel[1]
    shape = (n, 2 * parts * area, *counts)
    offset = draw.rng.integers(-1, 2, shape) + draw.rng.uniform(0.1, 0.4, shape)
    x = draw.floats((n, 4, *sizes))
    inputs = {"x": x, "weight": draw.floats((4, 4 // groups, *kernel))}
    inputs["offset"] = offset.astype(x.dtype)
    if draw.rng.random() < 0.5:
        inputs["mask"] = draw.floats((n, parts * area, *counts), 0.0, 1.0)
        inputs["bias"] = draw.floats((4,))
    draw.drops_nan = "unread pixels; a NaN position reads none"
    del windows["kernel"]  # the gradient of the weight
    return inputs, {**draw.attrs, **windows, "groups": groups, "offset_groups": parts}


def lines(draw: Draw) -> Drawn:
    """Draw distinct indices in a line or volume."""
    rank = int(draw.definition.op_type[-2])
    size = [int(n) for n in draw.rng.integers(2, 5, rank)]
    n, channels = draw.length, draw.other_length()
    attrs = {**draw.attrs, "output_size": size, "data_format": "NCL" if rank == 1 else "NCDHW"}
    pixels = (2,) * rank if rank > 1 else (min(size[0], 2),)
    count, total = int(np.prod(pixels)), int(np.prod(size))
    index = np.broadcast_to(total - 1 - np.arange(count), (n, channels, count))
    draw.refused["index"] = (-1, total)
    inputs = {"x": draw.floats((n, channels, *pixels))}
    inputs["index"] = index.reshape(n, channels, *pixels).astype(np.int32)
    return inputs, attrs


def powers(draw: Draw) -> Drawn:
    """Draw images with at most one long axis, and elements away from 0, where roots are steep."""
    rank = int(draw.definition.op_type[-2])
    shape = (draw.length, draw.other_length(), *(int(n) for n in draw.rng.integers(3, 6, rank)))
    x = draw.floats(shape, 0.5, 2.0)
    names = {1: "NCL", 2: "NCHW", 3: "NCDHW"}
    attrs = {
        **draw.attrs,
        "kernel": [2] * rank,
        "strides": [1] * rank,
        "paddings": [0] * 2 * rank,
        "dilations": [1] * rank,
        "data_format": names[rank],
        "p": float(draw.choice([1.0, 2.0, 3.0])),
    }
    return {"x": x}, attrs


def heads(draw: Draw) -> Drawn:
    """Draw sequences, and projections to two heads."""
    rng = draw.rng
    n, queries, keys = draw.length, int(rng.integers(1, 4)), int(rng.integers(1, 4))
    inputs = {"query": draw.floats((n, queries, 3))}
    inputs["key"], inputs["value"] = (draw.floats((n, keys, size)) for size in (2, 4))
    for part, rows in (("q", 3), ("k", 2), ("v", 4), ("out", 4)):
        inputs[f"{part}_weight"] = draw.floats((rows, 4))
        if rng.random() < 0.5:
            inputs[f"{part}_bias"] = draw.floats((4,))
    draw.drops_nan = "some keys may be hidden from a query"
    draw.without_effect["causal"] = "no draw shows it: a query with one key has no gradient"
    return inputs, {**draw.attrs, "num_heads": 2, "causal": False}


def windows(draw: Draw) -> Drawn:
    """Draw short windows."""
    attrs = {**draw.attrs, "length": draw.length, "dtype": draw.dtype}
    if "coefficients" in attrs:
        attrs["coefficients"] = [0.5, 0.25, 0.25]
    if "beta" in attrs:
        attrs["beta"] = float(draw.rng.uniform(0.0, 20.0))
    for name in ("std", "tau"):
        if name in attrs:
            attrs[name] = float(draw.rng.uniform(0.5, 9.0))
    return {}, attrs


_WINDOWS = ("hann", "hamming", "blackman", "nuttall", "general_cosine", "bartlett", "cosine")

SAMPLES = {
    "grid_sample": gridded,
    "affine_grid": maps,
    "unfold": unfolded,
    "fold": folded,
    "deform_conv2d": deformed,
    **dict.fromkeys(("max_unpool1d", "max_unpool3d"), lines),
    **dict.fromkeys(("lp_pool1d", "lp_pool2d", "lp_pool3d"), powers),
    "multi_head_attention": heads,
    **{f"{name}_window": windows for name in (*_WINDOWS, "gaussian", "exponential", "kaiser")},
}
