"""Reads and writes elements at indices."""

from __future__ import annotations

import math
from typing import Final

from opwright_torch.aten.shapes import axis_of, broadcast, broadcast_shape, rank, with_shape
from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()

MASKS: Final = ("bool", "uint8")
REDUCTIONS: Final = {
    "sum": "add",
    "add": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
}


def positions(t: Translator, index: Value) -> Value:
    """Return an index cast to an index dtype."""
    return index if index.dtype in ("int32", "int64") else t.cast(index, "int64")


def _indexed_axes(indices: Value) -> list[int]:
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if any(indices[axis].dtype in MASKS for axis in axes):
        raise Decline(
            "the index is a mask, whose number of selected elements is unknown before a run"
        )
    return axes


def _common(t: Translator, indices: list[Value]) -> tuple[list[Value], list[int]]:
    """Broadcast indices; return the indices and their shape."""
    shape = broadcast_shape(t, indices)
    wide = [
        index if t.shape(index) == shape else t.op("expand", index, shape=shape)
        for index in (positions(t, index) for index in indices)
    ]
    return wide, shape


def _front(t: Translator, x: Value, axes: list[int]) -> Value:
    """Return `x` with some axes moved to the front."""
    order = axes + [axis for axis in range(rank(x)) if axis not in axes]
    return x if order == list(range(rank(x))) else t.op("transpose", x, axes=order)


def _back(t: Translator, x: Value, axes: list[int]) -> Value:
    """Undo `_front`."""
    order = axes + [axis for axis in range(rank(x)) if axis not in axes]
    inverse = sorted(range(rank(x)), key=order.__getitem__)
    return x if order == inverse == list(range(rank(x))) else t.op("transpose", x, axes=inverse)


def _result_start(axes: list[int]) -> int:
    """Return the result position of the index axes: in place if adjacent, otherwise in front."""
    return axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0


@ROWS.row("aten::index", "aten::_unsafe_index")
def index(t: Translator, input: Value, indices: Value) -> Value:
    """Return ``input[indices]``; None selects a whole axis."""
    axes = _indexed_axes(indices)
    found, shape = _common(t, [indices[axis] for axis in axes])
    if len(axes) == 1:
        return t.op("gather", input, found[0], axis=axes[0])
    picked = t.op("gather_nd", _front(t, input, axes), t.op("stack", found, axis=len(shape)))
    start = _result_start(axes)
    return _back(t, picked, list(range(start, start + len(shape)))) if start else picked


@ROWS.row("aten::index_put", "aten::_unsafe_index_put")
def index_put(
    t: Translator, input: Value, indices: Value, values: Value, accumulate: bool = False
) -> Value:
    """Return the input after ``input[indices] = values``, or ``+=`` with `accumulate`."""
    values = t.cast(values, input.dtype)
    if len(indices) == 1 and indices[0].dtype in MASKS and math.prod(t.shape(values)) == 1:
        mask, value = t.cast(indices[0], "bool"), with_shape(t, values, [])
        mask = with_shape(t, mask, t.shape(mask) + [1] * (rank(input) - rank(mask)))
        return t.op("where", mask, t.op("add", input, value) if accumulate else value, input)
    axes = _indexed_axes(indices)
    found, shape = _common(t, [indices[axis] for axis in axes])
    rest = [dim for axis, dim in enumerate(t.shape(input)) if axis not in axes]
    start = _result_start(axes)
    whole = [*rest[:start], *shape, *rest[start:]]
    updates = values if t.shape(values) == whole else t.op("expand", values, shape=whole)
    updates = _front(t, updates, list(range(start, start + len(shape))))
    places = t.op("stack", found, axis=len(shape))
    reduction = "add" if accumulate else "none"
    x = t.op("scatter_nd", _front(t, input, axes), places, updates, reduction=reduction)
    return _back(t, x, axes)


@ROWS.row("aten::gather")
def gather(
    t: Translator, input: Value, dim: int, index: Value, sparse_grad: Value = False
) -> Value:
    """Return elements at indices along an axis; truncate other axes to the shape of the index."""
    axis = axis_of(input, dim)
    if rank(input) < 2:
        return t.op(
            "gather", with_shape(t, input, [math.prod(t.shape(input))]), positions(t, index)
        )
    x = _cut(t, input, t.shape(index), axis)
    return t.op("take_along_axis", x, positions(t, index), axis=axis)


def _cut(t: Translator, x: Value, shape: list[int], kept: int | None = None) -> Value:
    """Slice `x` to a smaller shape, except for one axis."""
    axes = [a for a, dim in enumerate(shape) if a != kept and dim != t.shape(x)[a]]
    if not axes:
        return x
    ends = [shape[axis] for axis in axes]
    cut: Value = t.op("slice", x, axes=axes, starts=[0] * len(axes), ends=ends)
    return cut


@ROWS.row("aten::take_along_dim")
def take_along_dim(t: Translator, input: Value, indices: Value, dim: Value = None) -> Value:
    """Return elements at indices along an axis; the other axes broadcast."""
    if dim is None:
        input, indices, dim = with_shape(t, input, [-1]), with_shape(t, indices, [-1]), 0
    axis = axis_of(input, dim)
    return t.op("take_along_axis", input, positions(t, indices), axis=axis)


@ROWS.row("aten::take")
def take(t: Translator, input: Value, index: Value) -> Value:
    """Return elements at indices of the flat input."""
    return t.op("gather", with_shape(t, input, [math.prod(t.shape(input))]), positions(t, index))


@ROWS.row("aten::scatter.src", "aten::scatter.value", "aten::scatter.reduce")
@ROWS.row("aten::scatter.value_reduce", "aten::scatter_add")
def scatter(
    t: Translator,
    input: Value,
    dim: int,
    index: Value,
    src: Value = None,
    value: Value = None,
    reduce: Value = None,
) -> Value:
    """Set or combine elements of the input at indices along an axis."""
    if t.node.target.name() == "aten::scatter_add":
        reduce = "add"
    updates = t.full(value, t.shape(index), input.dtype) if src is None else src
    return _scatter(t, input, dim, index, updates, REDUCTIONS[reduce] if reduce else "none")


def _scatter(
    t: Translator,
    x: Value,
    dim: int,
    index: Value,
    updates: Value,
    reduction: str,
    op_type: str = "scatter",
    **attrs: Value,
) -> Value:
    axis, places = axis_of(x, dim), positions(t, index)
    if rank(x) == 0:
        x, places, updates = (with_shape(t, v, [1]) for v in (x, places, updates))
    if not math.prod(t.shape(places)):
        return with_shape(t, x, t.shape())
    updates = _cut(t, updates, t.shape(places))
    out = t.op(op_type, x, places, updates, axis=axis, reduction=reduction, **attrs)
    return with_shape(t, out, t.shape())


@ROWS.row("aten::scatter_reduce.two")
def scatter_reduce(
    t: Translator,
    input: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    include_self: bool = True,
) -> Value:
    """Reduce values into elements of the input at indices along an axis."""
    if include_self and reduce in REDUCTIONS:
        return _scatter(t, input, dim, index, src, REDUCTIONS[reduce])
    reduction = REDUCTIONS.get(reduce, reduce)
    args = (input, dim, index, src, reduction, "scatter_reduce")
    return _scatter(t, *args, include_self=include_self)


@ROWS.row("aten::index_select", "aten::index_select_copy")
def index_select(t: Translator, input: Value, dim: int, index: Value) -> Value:
    """Return the slices at indices along an axis."""
    places = with_shape(t, positions(t, index), [math.prod(t.shape(index))])
    if rank(input) == 0:
        return with_shape(t, t.op("gather", with_shape(t, input, [1]), places), [])
    return t.op("gather", input, places, axis=axis_of(input, dim))


@ROWS.row("aten::index_add", "aten::index_copy")
def index_add(
    t: Translator, input: Value, dim: int, index: Value, source: Value, alpha: Value = 1
) -> Value:
    """Add to or replace slices of the input at indices along an axis."""
    reduction = "add" if t.node.target.name() == "aten::index_add" else "none"
    if alpha != 1:
        source = t.op("multiply", source, alpha)
    return _slices(t, input, axis_of(input, dim), index, source, reduction)


@ROWS.row("aten::index_fill")
def index_fill(t: Translator, input: Value, dim: int, index: Value, value: Value) -> Value:
    """Set slices of the input at indices along an axis to one value."""
    axis = axis_of(input, dim)
    shape = t.shape(input) or [1]
    shape[axis] = math.prod(t.shape(index))
    (number,) = t.promote(value)
    return _slices(t, input, axis, index, t.op("expand", number, shape=shape), "none")


def _slices(
    t: Translator, x: Value, axis: int, index: Value, updates: Value, reduction: str
) -> Value:
    if rank(x) == 0:
        x, updates = with_shape(t, x, [1]), with_shape(t, updates, [1])
    places = with_shape(t, positions(t, index), [math.prod(t.shape(index)), 1])
    x, updates = _front(t, x, [axis]), _front(t, updates, [axis])
    out = t.op("scatter_nd", x, places, updates, reduction=reduction)
    return with_shape(t, _back(t, out, [axis]), t.shape())


@ROWS.row("aten::masked_scatter")
def masked_scatter(t: Translator, input: Value, mask: Value, source: Value) -> Value:
    """Replace masked elements of the input by elements of a source, in order."""
    x, chosen = broadcast(t, input, t.cast(mask, "bool"))
    return t.op("masked_scatter", x, chosen, source)


@ROWS.row("aten::embedding")
def embedding(
    t: Translator,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Look up rows of a table; row `padding_idx` does not get a gradient."""
    if scale_grad_by_freq and t.trains(weight):
        raise Decline("scale_grad_by_freq=True")
    rows = t.op("embedding", weight, positions(t, indices))
    if padding_idx < 0 or not t.trains(weight):
        return rows
    # opwright returns a zero vector for padding_index; PyTorch reads the row.
    padded = t.op("equal", t.op("unsqueeze", indices, axis=[rank(indices)]), padding_idx)
    return t.op("where", padded, t.stop(t.op("assign", rows)), rows)


@ROWS.row("aten::searchsorted")
def searchsorted(
    t: Translator,
    sorted_sequence: Value,
    input: Value,
    out_int32: bool = False,
    right: bool = False,
    side: Value = None,
    sorter: Value = None,
) -> Value:
    """Return insertion positions in a sorted sequence."""
    x, values = sorted_sequence, input
    if sorter is not None:
        x = t.op("take_along_axis", x, sorter, axis=-1)
    dtype = t.promoted_dtype(x, values)
    x, values = t.promote(x, values, dtype=dtype)
    kind = side or ("right" if right else "left")
    rows = rank(x) != 1
    return t.op("searchsorted", x, values, side=kind, rows=rows, dtype=t.dtype())


@ROWS.row("aten::bucketize")
def bucketize(
    t: Translator, input: Value, boundaries: Value, out_int32: bool = False, right: bool = False
) -> Value:
    """Return the bucket index of each value, given sorted boundaries."""
    return searchsorted(t, boundaries, input, out_int32, right)


@ROWS.row("aten::cdist", "aten::_cdist_forward")
def cdist(t: Translator, x1: Value, x2: Value, p: float = 2, compute_mode: Value = None) -> Value:
    """Return the `p`-norms of all pairwise differences of rows."""
    x = t.op("unsqueeze", x1, axis=[rank(x1) - 1])
    y = t.op("unsqueeze", x2, axis=[rank(x2) - 2])
    return t.op("norm", t.op("subtract", x, y), p=float(p), axis=[-1])
