"""Test cases of operators that mix channels: pixel_shuffle, maxout, lrn."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import LENGTHS, NUMBERS, WIDE, Array, Case, Random, Values


def pixel_shuffle(x: Array, factor: int, data_format: str = "NCHW") -> Array:
    images = np.moveaxis(x, -1, 1) if data_format == "NHWC" else x
    n, channels, height, width = images.shape
    out = np.zeros((n, channels // factor**2, height * factor, width * factor), x.dtype)
    for i, j in np.ndindex(*out.shape[2:]):
        first = i % factor * factor + j % factor
        out[:, :, i, j] = images[:, first :: factor**2, i // factor, j // factor]
    return np.moveaxis(out, 1, -1) if data_format == "NHWC" else out


def maxout(x: Array, groups: int, axis: int = 1) -> Array:
    moved = np.moveaxis(x, axis, 0)
    parts = [moved[i : i + groups] for i in range(0, len(moved), groups)]
    out = np.zeros((len(parts), *moved.shape[1:]), x.dtype)
    for channel, part in enumerate(parts):
        out[channel] = part.max(axis=0)
    return np.moveaxis(out, 0, axis)


def lrn(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        first, last = max(c - (size - 1) // 2, 0), c + size // 2
        total[:, c] = (x[:, first : last + 1] ** 2).sum(axis=1)
    return x / (bias + alpha / size * total) ** beta


def shuffled(shape: tuple[int, ...], factor: int, label: str, **attrs: Any) -> Case:
    return Case(
        "pixel_shuffle",
        {"x": Random(shape)},
        pixel_shuffle,
        {"factor": factor, **attrs},
        label=label,
        ulps=0,
    )


def grouped(shape: tuple[int, ...], groups: int, label: str, **attrs: Any) -> Case:
    return Case(
        "maxout",
        {"x": Random(shape, distinct=True)},
        maxout,
        {"groups": groups, **attrs},
        label=label,
        ulps=0,
        dtypes=NUMBERS,
    )


def normalized(shape: tuple[int, ...], size: int, label: str, **attrs: Any) -> Case:
    return Case(
        "lrn",
        {"x": Random(shape)},
        lrn,
        {"size": size, **attrs},
        label=label,
        terms=size,
        ulps=16,
        magnitude=2.0,
    )


LARGE: dict[str, Any] = {"alpha": 2.0, "beta": 0.5, "bias": 2.0}

CASES = (
    shuffled((2, 8, 3, 2), 2, "plain"),
    shuffled((1, 9, 1, 1), 3, "one-pixel"),
    shuffled((2, 3, 2, 3), 1, "factor-1"),
    shuffled((2, 2, 3, 8), 2, "nhwc", data_format="NHWC"),
    shuffled((0, 4, 2, 2), 2, "batch-0"),
    shuffled((2, 0, 3, 1), 2, "channels-0"),
    shuffled((2, 3, 1, 0), 2, "channels-0-nhwc", data_format="NHWC"),
    *(shuffled((1, 4, 1, n), 2, f"width-{n}") for n in LENGTHS if n),
    grouped((2, 6, 3, 2), 2, "plain"),
    grouped((3, 6), 3, "matrix"),
    grouped((2, 3, 4), 4, "last-axis", axis=-1),
    grouped((4, 3), 1, "one"),
    grouped((0, 4, 2), 2, "batch-0"),
    grouped((3, 0, 3), 2, "channels-0"),
    *(grouped((2, 4, n), 2, f"length-{n}") for n in LENGTHS if n),
    Case(
        "maxout",
        {"x": Values([[np.nan, 1.0, -np.inf, -np.inf, np.inf, 0.0, 2.0, 2.0]])},
        maxout,
        {"groups": 2},
        label="special",
        no_grad="equal or undefined",
    ),
    normalized((2, 5, 3, 2), 3, "plain", **LARGE),
    normalized((2, 5, 3, 2), 3, "defaults"),
    normalized((1, 6, 4), 4, "even", **LARGE),
    normalized((2, 3), 5, "beyond", **LARGE),
    normalized((1, 1, 1, 1), 1, "one-element", **LARGE),
    normalized((0, 3, 2), 3, "batch-0", **LARGE),
    *(normalized((1, n, 3), 3, f"channels-{n}", **LARGE) for n in LENGTHS if n),
    Case(
        "lrn",
        {"x": Values([[[np.inf], [1.0], [2.0], [np.nan], [0.0]]])},
        lrn,
        {"size": 3, **LARGE},
        dtypes=WIDE,
        label="special",
        no_grad="infinite or undefined there",
    ),
)
