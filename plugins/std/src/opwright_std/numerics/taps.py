"""The input elements that each element of a resized axis reads, and their weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opwright_std.numerics.dtypes import Array

COORDINATES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "crop_and_resize",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


class Rule(NamedTuple):
    """How positions are computed; the fields are attributes of `resize`."""

    mode: str
    coordinates: str
    rounding: str
    antialias: bool
    cubic_coefficient: float
    exclude_outside: bool


class Taps(NamedTuple):
    """The taps of each output element.

    Attributes
    ----------
    places : int64 array [count, taps]
        Indices in [0, size); they may repeat.
    shares : float64 array [count, taps]
        Weights of the elements. Elements of weight 0 are not read, since they may be NaN.
    """

    places: Array
    shares: Array


def make_taps(
    size: int, count: int, scale: float, rule: Rule, part: tuple[float, float] = (0.0, 1.0)
) -> Taps:
    """Return the taps of `count` positions over an axis of `size` elements, at least 1.

    `scale` is the length factor, where 0 means count / size; `part` is the range of
    crop_and_resize.
    """
    if rule.mode == "area":
        return _area(size, count)
    if rule.antialias:
        return _antialiased(size, count, scale, rule)
    if rule.coordinates == "crop_and_resize":
        at = crop_coordinates(size, count, part)
        inside = ((at >= 0) & (at <= size - 1))[:, None].astype(np.float64)
    else:
        at, inside = _coordinates(size, count, scale, rule.coordinates), np.ones((count, 1))
    if rule.mode == "nearest":
        nearest = _round(at, rule.rounding).astype(np.int64)
        return Taps(nearest.clip(0, size - 1)[:, None], inside)
    first = np.floor(at)
    offsets = np.arange(0, 2) if rule.mode == "linear" else np.arange(-1, 3)
    distances = np.abs(at[:, None] - first[:, None] - offsets)
    places = first.astype(np.int64)[:, None] + offsets
    shares = inside * _weigh(distances, rule)
    if rule.exclude_outside:
        shares = shares * ((places >= 0) & (places < size))
        total = shares.sum(axis=1, keepdims=True)
        shares = shares / np.where(total == 0, 1, total)
    return Taps(places.clip(0, size - 1), shares)


def crop_coordinates(size: int, count: int, part: tuple[float, float]) -> Array:
    """Return evenly spaced positions in a range, ends included; a single position is the middle."""
    begin, end = (side * (size - 1) for side in part)
    if count == 1:
        return np.array([(begin + end) / 2])
    return np.asarray(begin + np.arange(count) * (end - begin) / (count - 1))


def _coordinates(size: int, count: int, scale: float, kind: str) -> Array:
    """Return the fractional position of each output element among the input elements."""
    i = np.arange(count)
    if kind == "align_corners":
        return np.asarray(i * (size - 1) / max(count - 1, 1))
    if kind == "pytorch_half_pixel" and count == 1:
        return np.zeros(1)
    if kind == "asymmetric":
        return np.asarray(i / scale if scale else i * size / count)
    # Positions are computed in integers as far as possible, so only the quotient is rounded.
    at = (i + 0.5) / scale - 0.5 if scale else ((2 * i + 1) * size - count) / (2 * count)
    if kind == "half_pixel_symmetric" and scale:
        at += size / 2 * (1 - count / (scale * size))
    return np.asarray(at)


def _round(at: Array, rounding: str) -> Array:
    if rounding.startswith("round"):
        rounded = np.floor(at + 0.5) if rounding.endswith("ceil") else np.ceil(at - 0.5)
        return np.asarray(rounded)
    return np.asarray(np.floor(at) if rounding == "floor" else np.ceil(at))


def _weigh(distances: Array, rule: Rule) -> Array:
    """Return the weight at a distance: a triangle, or Keys' cubic function."""
    if rule.mode == "linear":
        return np.asarray(np.maximum(1 - distances, 0))
    a, d = rule.cubic_coefficient, distances
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _area(size: int, count: int) -> Taps:
    """Return taps for the mean of each bin, as in adaptive pooling."""
    i = np.arange(count)
    begin, end = i * size // count, -(-(i + 1) * size // count)
    places = begin[:, None] + np.arange((end - begin).max(initial=1))
    covered = places < end[:, None]
    return Taps(places.clip(0, size - 1), covered / (end - begin)[:, None])


def _antialiased(size: int, count: int, scale: float, rule: Rule) -> Taps:
    """Return taps of a filter widened for downsampling, with weights of sum 1."""
    step = 1 / scale if scale else size / count
    stretch = max(step, 1.0)
    support = (1 if rule.mode == "linear" else 2) * stretch
    centers = step * (np.arange(count) + 0.5)
    begin = np.maximum(np.floor(centers - support + 0.5), 0).astype(np.int64)
    end = np.minimum(np.floor(centers + support + 0.5), size).astype(np.int64)
    places = begin[:, None] + np.arange(2 * math.ceil(support) + 1)
    distances = np.abs(places - centers[:, None] + 0.5) / stretch
    shares = np.where(places < end[:, None], _weigh(distances, rule), 0.0)
    return Taps(places.clip(0, size - 1), shares / shares.sum(axis=1, keepdims=True))


def mix(x: Array, axis: int, taps: Taps) -> Array:
    """Return x resampled along an axis."""
    moved = np.moveaxis(x, axis, 0)
    mixed = np.zeros((len(taps.places), *moved.shape[1:]), x.dtype)
    for places, shares in zip(taps.places.T, taps.shares.T, strict=True):
        used = np.flatnonzero(shares)
        mixed[used] += moved[places[used]] * _lined_up(shares[used], moved)
    return np.moveaxis(mixed, 0, axis)


def spread(grad: Array, axis: int, size: int, taps: Taps) -> Array:
    """Return the gradient of `mix` for the axis of `size` elements."""
    moved = np.moveaxis(grad, axis, 0)
    sums = np.zeros((size, *moved.shape[1:]), grad.dtype)
    for places, shares in zip(taps.places.T, taps.shares.T, strict=True):
        used = np.flatnonzero(shares)
        np.add.at(sums, places[used], moved[used] * _lined_up(shares[used], moved))
    return np.moveaxis(sums, 0, axis)


def _lined_up(shares: Array, x: Array) -> Array:
    return shares.astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
