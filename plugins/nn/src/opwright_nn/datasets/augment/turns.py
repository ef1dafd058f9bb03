"""Flips and rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import ShapeError
from opwright_nn import arguments, checks
from opwright_nn.datasets.augment.images import (
    Images,
    as_given,
    check_images,
    check_stream,
    to_float,
)


@arguments.suggest
def random_horizontal_flip(images: Images, rng: np.random.Generator, *, p: float = 0.5) -> Images:
    """Return images, each mirrored left to right with probability p.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [channels, height, width] or [n, channels, height, width]
        The images.
    rng : numpy.random.Generator
        Draws for each image.
    p : float in [0, 1]
        The probability.

    Returns
    -------
    ndarray
        The images, with unchanged shape and dtype.
    """
    return _flip("augment.random_horizontal_flip", images, rng, p, -1)


@arguments.suggest
def random_vertical_flip(images: Images, rng: np.random.Generator, *, p: float = 0.5) -> Images:
    """Return images, each mirrored top to bottom with probability p."""
    return _flip("augment.random_vertical_flip", images, rng, p, -2)


def _flip(who: str, images: Any, rng: Any, p: float, axis: int) -> Images:
    batch = check_images(who, images)
    p = checks.check_float(who, "p", p, at_least=0.0, at_most=1.0)
    chosen = check_stream(who, rng).random(len(batch)) < p
    return as_given(np.where(chosen[:, None, None, None], np.flip(batch, axis), batch), images)


@arguments.suggest
def random_rotation(
    images: Images, rng: np.random.Generator, degrees: float, *, fill: float = 0.0
) -> Images:
    """Return images rotated by uniformly random angles in [-degrees, degrees].

    Parameters
    ----------
    images, rng
        As for `random_horizontal_flip`.
    degrees : float in [0, 180]
        The largest angle.
    fill : float
        As for `rotate`.

    Returns
    -------
    ndarray
        The images, with unchanged shape and dtype.
    """
    who = "augment.random_rotation"
    n = len(check_images(who, images))
    limit = checks.check_float(who, "degrees", degrees, at_least=0.0, at_most=180.0)
    return rotate(images, check_stream(who, rng).uniform(-limit, limit, n), fill=fill)


@arguments.suggest
def rotate(images: Images, angles: float | npt.ArrayLike, *, fill: float = 0.0) -> Images:
    """Return images rotated counter-clockwise about their centers, with bilinear interpolation.

    The size does not change.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [channels, height, width] or [n, channels, height, width]
        The images.
    angles : float or array, [n]
        Degrees, one angle for all images or one for each.
    fill : float
        The fill value outside the image, in the image's value range.

    Returns
    -------
    ndarray
        Shape and dtype of the images; uint8 is rounded.
    """
    who = "augment.rotate"
    batch = check_images(who, images)
    fill = checks.check_float(who, "fill", fill)
    turns = np.deg2rad(checks.check_numbers(who, "angles", angles).astype(np.float64))
    n, _, height, width = batch.shape
    if turns.shape not in ((), (n,)):
        raise ShapeError(
            f"{who}: angles must be a number, or one for each of {n} images, got shape "
            f"{list(turns.shape)}; pass an array [{n}]"
        )
    floats = to_float(batch)
    if not floats.size:
        return as_given(batch.copy(), images)
    cos, sin = np.cos(turns).reshape(-1, 1, 1), np.sin(turns).reshape(-1, 1, 1)
    # For each pixel of the result, the distance of its source from the center, in pixels.
    y = np.arange(height).reshape(1, -1, 1) - (height - 1) / 2
    x = np.arange(width).reshape(1, 1, -1) - (width - 1) / 2
    column, row = cos * x - sin * y + (width - 1) / 2, sin * x + cos * y + (height - 1) / 2
    grid = np.stack(np.broadcast_arrays(column, row), axis=-1).astype(floats.dtype)
    grid = np.ascontiguousarray(np.broadcast_to(grid, (n, height, width, 2)))
    # Pixels outside the image are zeros.
    turned = ow.ops.grid_sample(floats - floats.dtype.type(fill), grid, normalized=False)
    return as_given(turned + floats.dtype.type(fill), images)
