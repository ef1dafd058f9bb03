"""Shapes for kernels, in which dimensions with the same behavior are merged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Shape = tuple[int, ...]

MAX_DIMENSIONS = 4
"""The largest rank of `place_of` in ``formulas.cl``."""


def merge_broadcast(shape: Shape, *operands: Shape) -> tuple[Shape, list[Shape]] | None:
    """Return a shape of four dimensions and, for each operand, strides in elements.

    Adjacent dimensions are merged if each operand broadcasts both or neither.

    Parameters
    ----------
    shape : tuple of int
        The broadcast shape, without dimensions of 0.
    *operands : tuple of int
        Compact arrays that broadcast to it.

    Returns
    -------
    tuple or None
        None if more than four dimensions remain.
    """
    rows = [_strides(operand, len(shape)) for operand in operands]
    merged: list[int] = []
    kept: list[list[int]] = [[] for _ in operands]
    for axis, dim in enumerate(shape):
        if dim == 1:
            continue
        here = [row[axis] for row in rows]
        if merged and all(old[-1] == new * dim for old, new in zip(kept, here, strict=True)):
            merged[-1] *= dim
            for old, new in zip(kept, here, strict=True):
                old[-1] = new
            continue
        merged.append(dim)
        for old, new in zip(kept, here, strict=True):
            old.append(new)
    missing = MAX_DIMENSIONS - len(merged)
    if missing < 0:
        return None
    padded = [(0,) * missing + tuple(row) for row in kept]
    return (1,) * missing + tuple(merged), padded


def _strides(operand: Shape, rank: int) -> list[int]:
    """Return a stride for each of `rank` axes, 0 along broadcast axes."""
    strides, step = [], 1
    for dim in reversed(operand):
        strides.append(0 if dim == 1 else step)
        step *= dim
    return [0] * (rank - len(operand)) + strides[::-1]


class Lines(NamedTuple):
    """An array viewed as [outer, length, inner], with lines along the middle axis."""

    outer: int
    length: int
    inner: int

    @property
    def n_lines(self) -> int:
        """The number of lines."""
        return self.outer * self.inner


def lines_over(shape: Shape, axes: Sequence[int]) -> Lines | None:
    """Return the lines over these axes, or None if other non-trivial axes are between them."""
    # For a 0-d array, axes 0 and -1 both mean its only element.
    chosen = {axis % len(shape) for axis in axes} if axes and shape else set(range(len(shape)))
    long = sorted(axis for axis in chosen if shape[axis] != 1)
    if not long:
        return Lines(math.prod(shape), 1, 1)
    first, last = long[0], long[-1]
    if any(axis not in chosen and shape[axis] != 1 for axis in range(first, last)):
        return None
    span = (shape[:first], shape[first : last + 1], shape[last + 1 :])
    return Lines(*map(math.prod, span))


def lines_along(shape: Shape, axis: int) -> Lines:
    """Return the lines along one axis."""
    if not shape:  # a scalar is one line of one element
        return Lines(1, 1, 1)
    axis %= len(shape)
    return Lines(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def vector(values: Sequence[int], dtype: type[np.generic]) -> np.ndarray:
    """Return numbers as an argument with an OpenCL C vector type."""
    return np.array(values, dtype)
