"""Crops images, with optional padding or resizing, and resizes images."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from opwright.errors import AttributeValueError, ShapeError
from opwright_nn import arguments, checks
from opwright_nn.datasets.augment.images import (
    Floats,
    Images,
    as_given,
    check_images,
    check_stream,
    to_float,
)

_TRIES = 10
_WEIGHTS_KEPT = 256


@arguments.suggest
def random_crop(
    images: Images,
    rng: np.random.Generator,
    size: int | Sequence[int],
    *,
    padding: int = 0,
    fill: float = 0.0,
) -> Images:
    """Return a crop of each image, at a uniformly random position.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [channels, height, width] or [n, channels, height, width]
        The images.
    rng : numpy.random.Generator
        The generator, which draws for each image.
    size : int or two ints, at least 1
        Height and width of the crops.
    padding : int, at least 0
        The number of pixels that are first added on all sides.
    fill : float
        The value of these pixels.

    Returns
    -------
    ndarray
        ``[..., *size]``, dtype of the images.

    Raises
    ------
    ShapeError
        The padded images are smaller than `size`.
    """
    who = "augment.random_crop"
    batch = check_images(who, images)
    height, width = checks.check_sizes(who, "size", size, rank=2, at_least=1)
    border = checks.check_int(who, "padding", padding, at_least=0)
    value = checks.check_float(who, "fill", fill)
    if border:
        sides = ((0, 0), (0, 0), (border, border), (border, border))
        batch = np.pad(batch, sides, constant_values=value)
    rows, columns = batch.shape[2] - height + 1, batch.shape[3] - width + 1
    if rows < 1 or columns < 1:
        raise ShapeError(
            f"{who}: images with padding={border} must be at least {height} × {width}, got "
            f"{batch.shape[2]} × {batch.shape[3]}; pass a smaller size, or more padding"
        )
    rng = check_stream(who, rng)
    tops, lefts = rng.integers(rows, size=len(batch)), rng.integers(columns, size=len(batch))
    out = np.empty((*batch.shape[:2], height, width), batch.dtype)
    for part, image, top, left in zip(out, batch, tops, lefts, strict=True):
        part[...] = image[:, top : top + height, left : left + width]
    return as_given(out, images)


@arguments.suggest
def random_resized_crop(
    images: Images,
    rng: np.random.Generator,
    size: int | Sequence[int],
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Images:
    """Return a crop of each image, with a random area and aspect ratio, resized to `size`.

    Parameters
    ----------
    images, rng
        As for `random_crop`.
    size : int or two ints, at least 1
        Height and width of the results.
    scale : two floats in (0, 1]
        The smallest and the largest fraction of the area.
    ratio : two floats, above 0
        The smallest and the largest ratio of width to height, drawn log-uniformly. If no
        crop fits in ten tries, the largest crop in the center is taken.

    Returns
    -------
    ndarray
        ``[..., *size]``, dtype of the images; uint8 is rounded.
    """
    who = "augment.random_resized_crop"
    batch = check_images(who, images)
    rows, columns = checks.check_sizes(who, "size", size, rank=2, at_least=1)
    scales = _check_pair(who, "scale", scale, 1.0)
    ratios = _check_pair(who, "ratio", ratio, None)
    rng = check_stream(who, rng)
    floats = to_float(batch)
    out = np.empty((*batch.shape[:2], rows, columns), floats.dtype)
    for result, image in zip(out, floats, strict=True):
        top, left, height, width = _draw_part(rng, image.shape[1], image.shape[2], scales, ratios)
        part = image[:, top : top + height, left : left + width]
        result[...] = _resample(part, rows, columns)
    return as_given(out, images)


@arguments.suggest
def resize(images: Images, size: int | Sequence[int]) -> Images:
    """Return images resized bilinearly, with an antialiasing filter for axes that shrink.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [channels, height, width] or [n, channels, height, width]
        The images, of at least one pixel.
    size : int or two ints, at least 1
        Height and width; an int means both.

    Returns
    -------
    ndarray
        ``[..., *size]``, dtype of the images; uint8 is rounded.
    """
    who = "augment.resize"
    batch = check_images(who, images)
    rows, columns = checks.check_sizes(who, "size", size, rank=2, at_least=1)
    if not all(batch.shape[2:]):
        raise ShapeError(
            f"{who}: images must have pixels, got shape {list(batch.shape)}; pass larger images"
        )
    return as_given(_resample(to_float(batch), rows, columns), images)


def _resample(floats: Floats, rows: int, columns: int) -> Floats:
    down = _find_weights(floats.shape[-2], rows, floats.dtype.name)
    across = _find_weights(floats.shape[-1], columns, floats.dtype.name)
    return np.asarray(down @ (floats @ across.T))


@functools.lru_cache(_WEIGHTS_KEPT)
def _find_weights(n: int, n_out: int, dtype: str) -> Floats:
    """Return the triangular weights of input pixels for output pixels along an axis, [n_out, n]."""
    scale = n / n_out
    reach = max(scale, 1.0)
    centers = (np.arange(n_out) + 0.5) * scale
    distances = np.abs(np.arange(n) + 0.5 - centers[:, None]) / reach
    weights = np.maximum(1 - distances, 0)
    shares: Floats = (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)
    return shares


def _draw_part(
    rng: np.random.Generator,
    height: int,
    width: int,
    scales: tuple[float, float],
    ratios: tuple[float, float],
) -> tuple[int, int, int, int]:
    """Return top, left, height and width."""
    for _ in range(_TRIES):
        area = height * width * rng.uniform(*scales)
        ratio = math.exp(rng.uniform(math.log(ratios[0]), math.log(ratios[1])))
        columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < columns <= width and 0 < rows <= height:
            top, left = rng.integers(height - rows + 1), rng.integers(width - columns + 1)
            return int(top), int(left), rows, columns
    rows = min(height, max(round(width / ratios[0]), 1))
    columns = min(width, max(round(height * ratios[1]), 1))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def _check_pair(who: str, name: str, value: Any, at_most: float | None) -> tuple[float, float]:
    if not isinstance(value, Sequence) or len(value) != 2:
        raise AttributeValueError(
            f"{who}: {name} must be two numbers, got {value!r}; write {name}=(0.5, 1.0)"
        )
    low, high = (
        checks.check_float(who, f"{name}[{i}]", value[i], above=0.0, at_most=at_most)
        for i in range(2)
    )
    if low > high:
        raise AttributeValueError(
            f"{who}: {name} must be in ascending order, got {value!r}; swap the numbers"
        )
    return low, high
