"""Sums slices by index, as the gradient of every lookup does."""

from __future__ import annotations

import math

import numpy as np

from opwright_std.numerics.dtypes import Array


def add_slices(slices: Array, ids: Array, out: Array, axis: int = 0) -> None:
    """Write ``out[..., j, ...] = sum of slices[..., i, ...] with ids[i] == j``, in the order of i.

    Parameters
    ----------
    slices : array [..., n, ...]
        Any shape with ``ids.size`` slices of `out` along `axis`.
    ids : int64 array of n elements
        Each in [0, out.shape[axis]).
    out : array [..., count, ...]
        Overwritten; 0 where an id does not occur.
    axis : int
        Counted from the front.
    """
    outer, inner = math.prod(out.shape[:axis]), math.prod(out.shape[axis + 1 :])
    lines = np.arange(outer)[:, None] * out.shape[axis] + ids.reshape(1, -1)
    places = lines[:, :, None] * inner + np.arange(inner)
    # Half precision accumulates in float32. Over flat arrays np.add.at is four times as fast as
    # over rows, and faster than sorting the ids and summing runs.
    total = np.zeros(out.size, np.float32) if out.itemsize == 2 else out.reshape(-1)
    total[...] = 0
    np.add.at(total, places.reshape(-1), slices.reshape(-1))
    if out.itemsize == 2:
        out[...] = total.reshape(out.shape)
