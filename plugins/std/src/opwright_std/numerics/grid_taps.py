"""The input pixels that grid positions sample along an axis, and their weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from opwright_std.numerics.dtypes import Array

_A = -0.75
"""The coefficient of cubic convolution, as in PyTorch and OpenCV."""

OUTSIDE = 8.0
"""Distance in pixels outside of an image at which positions read none of its pixels."""


class GridAxis(NamedTuple):
    """How the coordinates of one axis are interpreted.

    Attributes
    ----------
    size : int
        Pixels.
    mode, padding_mode : str
        As in `grid_sample`.
    align_corners, normalized : bool
        As in `grid_sample`.
    """

    size: int
    mode: str
    padding_mode: str
    align_corners: bool
    normalized: bool

    def factor(self) -> float:
        """Return the derivative of the position, in pixels, with respect to its coordinate."""
        if not self.normalized:
            return 1.0
        return (self.size - 1 if self.align_corners else self.size) / 2

    def ends(self) -> tuple[float, float]:
        """Return the two positions that bound the reflection of coordinates."""
        return (0.0, self.size - 1.0) if self.align_corners else (-0.5, self.size - 0.5)


class Tap(NamedTuple):
    """For each position along an axis: a pixel index or -1, its weight and its derivative."""

    pixel: Array
    share: Array
    derivative: Array


def find_taps(axis: GridAxis, coordinates: Array) -> list[Tap]:
    """Return the pixels read at each coordinate along an axis, with weights and derivatives."""
    places = _unnormalized(axis, coordinates)
    finite = np.isfinite(places)
    factor = np.where(finite, axis.factor(), 0).astype(places.dtype)
    places = np.where(finite, places, _instead(axis, places)).astype(places.dtype)
    if axis.mode == "bicubic":
        return _cubic_taps(axis, places, factor)
    if axis.padding_mode != "zeros":
        places, factor = _padded(axis, places, factor)
    if axis.mode == "nearest":
        return [_tap(axis, np.rint(places), np.ones_like(places), np.zeros_like(places))]
    first = np.floor(places)
    share = places - first
    return [
        _tap(axis, first, 1 - share, -factor),
        _tap(axis, first + 1, share, factor),
    ]


def _instead(axis: GridAxis, places: Array) -> Array:
    """Replace positions that are NaN or infinite."""
    if axis.padding_mode == "zeros":
        return np.full(places.shape, -OUTSIDE)
    if axis.padding_mode == "reflection":
        return np.zeros(places.shape)
    ends = np.where(places > 0, axis.size + OUTSIDE, -OUTSIDE)
    return np.where(np.isnan(places), 0, ends)


def _unnormalized(axis: GridAxis, coordinates: Array) -> Array:
    if not axis.normalized:
        return coordinates
    if axis.align_corners:
        return (coordinates + 1) / 2 * (axis.size - 1)
    return ((coordinates + 1) * axis.size - 1) / 2


def _padded(axis: GridAxis, places: Array, factor: Array) -> tuple[Array, Array]:
    """Clip positions to the image; also return the derivatives, which are 0 outside of it."""
    if axis.padding_mode == "reflection":
        places, turns = _reflected(axis, places)
        factor = factor * turns
    held = np.clip(places, 0, axis.size - 1)
    inside = (places > 0) & (places < axis.size - 1)
    return held.astype(places.dtype), np.where(inside, factor, 0)


def _reflected(axis: GridAxis, places: Array) -> tuple[Array, Array]:
    """Reflect positions into the axis; also return the derivatives, which are 1 or -1."""
    low, high = axis.ends()
    span = high - low
    if span <= 0:
        return np.zeros_like(places), np.zeros_like(places)
    beyond = places - low
    distance = np.abs(beyond)
    turns = np.floor(distance / span)
    rest = np.fmod(distance, span)
    even = turns % 2 == 0
    sign = np.where(beyond < 0, -1, 1)
    reflected = np.where(even, rest + low, span - rest + low)
    return reflected.astype(places.dtype), np.where(even, sign, -sign).astype(places.dtype)


def _cubic_taps(axis: GridAxis, places: Array, factor: Array) -> list[Tap]:
    first = np.floor(places)
    t = places - first
    taps = []
    for k in range(-1, 3):
        index = first + k
        if axis.padding_mode != "zeros":
            index, _ = _padded(axis, index, factor)
        distance, sign = np.abs(t - k), 1 if k <= 0 else -1
        share = near_share(distance) if k in (0, 1) else far_share(distance)
        derivative = _near_derivative(distance) if k in (0, 1) else _far_derivative(distance)
        taps.append(_tap(axis, index, share, derivative * sign * factor))
    return taps


def near_share(distance: Any) -> Any:
    """Return the cubic convolution weight of a pixel at a distance of at most 1.

    The distance is an array or an expression.
    """
    return ((_A + 2) * distance - (_A + 3)) * distance * distance + 1.0


def far_share(distance: Any) -> Any:
    """Return the weight of a pixel at a distance from 1 to 2."""
    return ((_A * distance - 5 * _A) * distance + 8 * _A) * distance - 4 * _A


def _near_derivative(d: Array) -> Array:
    return (3 * (_A + 2) * d - 2 * (_A + 3)) * d


def _far_derivative(d: Array) -> Array:
    return (3 * _A * d - 10 * _A) * d + 8 * _A


def _tap(axis: GridAxis, index: Array, share: Array, derivative: Array) -> Tap:
    inside = (index >= 0) & (index <= axis.size - 1)
    whole = np.where(inside, index, -1).astype(np.int64)
    return Tap(whole, np.where(inside, share, 0), np.where(inside, derivative, 0))
