"""Roots of sums of squares, even if the squares overflow or underflow."""

from __future__ import annotations

import numpy as np

from opwright_std.numerics.dtypes import Array

Axes = int | tuple[int, ...]


def norm(x: Array, axis: Axes) -> Array:
    """Return sqrt(sum(x**2)) over axes; reduced axes are kept with length 1."""
    with np.errstate(over="ignore"):
        total = np.sum(np.square(x), axis=axis, keepdims=True)
    root = np.asarray(np.sqrt(total))
    extreme = ~_is_ordinary(total)
    if not extreme.any():
        return root
    scale = _scale_of(np.max(np.abs(x), axis=axis, keepdims=True, initial=0))
    scaled = np.sqrt(np.sum(np.square(x * scale), axis=axis, keepdims=True)) / scale
    return np.asarray(np.where(extreme, scaled, root))


def deviation(x: Array, axis: Axes, epsilon: float, mean_square: Array) -> Array:
    """Return sqrt(mean(x**2) + epsilon) over axes; reduced axes are kept with length 1.

    Parameters
    ----------
    x : Array
        The input.
    axis : int or tuple of int
        The axes.
    epsilon : float
        Added to the mean.
    mean_square : Array
        The plain mean: infinite or 0 where squares overflow or underflow.
    """
    total = mean_square + x.dtype.type(epsilon)
    root = np.asarray(np.sqrt(total))
    extreme = ~_is_ordinary(total)
    if not extreme.any():
        return root
    count = x.dtype.type(x.size // max(root.size, 1))
    least = np.sqrt(x.dtype.type(epsilon))
    size = norm(x, axis) / np.sqrt(count)
    scale = _scale_of(np.maximum(size, least))
    scaled = np.sqrt(np.square(size * scale) + np.square(least * scale)) / scale
    return np.asarray(np.where(extreme, scaled, root))


def mean_square(x: Array, axis: Axes) -> Array:
    """Return mean(x**2) over axes, kept with length 1; the result is infinite on overflow."""
    with np.errstate(over="ignore"):
        return np.asarray(np.mean(np.square(x), axis=axis, keepdims=True))


def _is_ordinary(total: Array) -> Array:
    """Return a mask of accurate sums: they did not overflow, and no relevant square underflowed."""
    info = np.finfo(total.dtype)
    return np.asarray((total >= info.tiny / info.eps) & (total <= info.max))


def _scale_of(size: Array) -> Array:
    """Return powers of 2 that scale magnitudes to about 1; 1 for 0, inf and NaN."""
    exponent = np.frexp(np.where(np.isfinite(size), size, size.dtype.type(0)))[1]
    least = np.finfo(size.dtype).minexp
    return np.asarray(np.ldexp(np.ones_like(size), -np.maximum(exponent, least + 1)))
