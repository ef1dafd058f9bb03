"""Ordered scatter of elements to indices that may repeat, and its gradients."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from opwright_std.numerics.dtypes import Array

REDUCTIONS = ("none", "add", "mul", "max", "min")
"""How an element and the updates at its index combine."""

Pair: TypeAlias = tuple[Array, Array]

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def check_positions(who: str, index: Array, count: int) -> Array:
    """Return the indices as int64, with negative indices counted from the front.

    Raises
    ------
    ValueError
        If an index is outside [-count, count).
    """
    wrong = (index < -count) | (index >= count)
    if wrong.any():
        raise ValueError(f"{who} must be in [{-count}, {count}), got {index[wrong][0]}")
    return np.where(index < 0, index + np.int64(count), index).astype(np.int64, copy=False)


def row_numbers(who: str, index: Array, shape: tuple[int, ...]) -> Array:
    """Return the row of x for each index vector along the last axis of `index`.

    Parameters
    ----------
    who : str
        Operator type and slot.
    index : int array [..., k]
        Positions along the first k axes of x.
    shape : tuple of int
        The shape of x.

    Returns
    -------
    int64 array [n]
        Rows of x as [product of the first k dims, product of the rest].
    """
    k = index.shape[-1]
    rows = np.zeros(math.prod(index.shape[:-1]), np.int64)
    for axis, count in enumerate(shape[:k]):
        column = index[..., axis].reshape(-1)
        rows = rows * count + check_positions(f"{who}[..., {axis}]", column, count)
    return rows


def row_places(rows: Array, row: int) -> Array:
    """Return the flat indices of all elements of `rows`; a row has `row` elements."""
    return (rows[:, None] * row + np.arange(row)).reshape(-1)


def line_places(found: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return the flat index in an array of `shape` for each position along `axis`.

    Parameters
    ----------
    found : int64 array
        Positions, of as many axes as `shape`.
    shape : tuple of int
        Where a length is 1, the elements of `found` along that axis share an index.
    axis : int
        Counted from the front.
    """
    places = np.zeros(found.shape, np.int64)
    step = 1
    for d in range(len(shape))[::-1]:
        if d == axis:
            places += found * step
        elif shape[d] != 1:
            lengths = [1] * len(shape)
            lengths[d] = found.shape[d]
            places += np.arange(found.shape[d]).reshape(lengths) * step
        step *= shape[d]
    return places.reshape(-1)


def scatter_into(out: Array, places: Array, updates: Array, reduction: str) -> None:
    """Combine elements of a flat array with updates, in order."""
    if reduction == "none":
        out[places] = updates  # the last update of a repeated index wins
    elif out.dtype == np.float16:
        # Half precision is computed in float32 and rounded once.
        wide = out.astype(np.float32)
        _UFUNCS[reduction].at(wide, places, updates)
        out[...] = wide
    else:
        _UFUNCS[reduction].at(out, places, updates)


def scatter_gradients(
    x: Array,
    places: Array,
    updates: Array,
    out: Array,
    out_grad: Array,
    x_grad: Array | None,
    updates_grad: Array | None,
    reduction: str,
) -> None:
    """Write the gradients of `scatter_into`; arrays are flat, and a gradient may be None."""
    rules = {"none": _set_gradients, "add": _sum_gradients, "mul": _product_gradients}
    rule = rules.get(reduction, _extremum_gradients)
    with np.errstate(invalid="ignore", over="ignore"):
        of_x, of_updates = rule(x, places, updates, out, out_grad)
    if x_grad is not None:
        x_grad[...] = of_x
    if updates_grad is not None:
        updates_grad[...] = of_updates


def _set_gradients(x: Array, places: Array, updates: Array, out: Array, grad: Array) -> Pair:
    last = np.full(x.size, -1)
    last[places] = np.arange(places.size)
    stays = last[places] == np.arange(places.size)
    return np.where(last < 0, grad, 0), np.where(stays, grad[places], 0)


def _sum_gradients(x: Array, places: Array, updates: Array, out: Array, grad: Array) -> Pair:
    return grad, grad[places]


def _product_gradients(x: Array, places: Array, updates: Array, out: Array, grad: Array) -> Pair:
    # Multiplies the product of the preceding factors by that of the following factors, without
    # division.
    kind = np.float32 if x.dtype == np.float16 else x.dtype
    before, behind = x.astype(kind), np.ones(x.size, kind)
    product = np.empty(places.size, kind)
    for i, place in enumerate(places):
        product[i] = before[place]
        before[place] *= updates[i]
    for i in range(places.size)[::-1]:
        product[i] *= behind[places[i]]
        behind[places[i]] *= updates[i]
    return grad * behind, grad[places] * product


def _extremum_gradients(x: Array, places: Array, updates: Array, out: Array, grad: Array) -> Pair:
    taken = out[places]
    x_took = (x == out) | (np.isnan(x) & np.isnan(out))
    took = (updates == taken) | (np.isnan(updates) & np.isnan(taken))
    count = x_took + np.bincount(places[took], minlength=x.size)
    share = grad / np.maximum(count, 1).astype(grad.dtype)
    return np.where(x_took, share, 0), np.where(took, share[places], 0)
