"""Rows of operators that read and write elements at positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value, check_table

ROWS = Rows()


def from_front(t: Translator, index: Value, length: Any) -> Value:
    """Convert negative positions, which count from the end, to positions from the start."""
    known = t.array(index)
    if known is not None and known.size and known.min() >= 0:
        return index
    size = length if isinstance(length, int) else t.cast(length, t.dtype(index))
    if not isinstance(size, int) and t.rank(size) > t.rank(index):
        size = t.reshape(size, [])  # a size that is unknown until a run has the shape [1]
    if known is not None and known.size and known.max() < 0:
        return t.op("add", index, size)
    return t.op("where", t.op("less", index, 0), t.op("add", index, size), index)


@ROWS.row("Gather")
def gather(t: Translator, n: Node, x: Value, index: Value) -> Any:
    axis = t.axis(n.attr("axis"), t.rank(x))
    return t.op("gather", x, from_front(t, index, t.dim(x, axis)), axis=axis)


@ROWS.row("GatherElements")
def gather_elements(t: Translator, n: Node, x: Value, index: Value) -> Any:
    axis = t.axis(n.attr("axis"), t.rank(x))
    x = _as_short(t, x, index, axis)
    return t.op("take_along_axis", x, from_front(t, index, t.dim(x, axis)), axis=axis)


def _as_short(t: Translator, x: Value, index: Value, axis: int) -> Value:
    """Truncate `x` to the lengths of the index along all axes except `axis`."""
    pairs = list(zip(t.shape(x), t.shape(index)))
    axes = [i for i, (a, b) in enumerate(pairs) if i != axis and (a != b or a is None)]
    if not axes:
        return x
    return t.slice(x, axes, [0] * len(axes), [t.dim(index, i) for i in axes])


@ROWS.row("GatherND")
def gather_nd(t: Translator, n: Node, x: Value, index: Value) -> Any:
    batch = n.attr("batch_dims", 0)
    width = t.known_dim(index, -1, "indices")
    lengths = t.slice(t.shape_vector(x), [0], [batch], [batch + width])
    index = from_front(t, index, lengths)
    if not batch:
        return t.op("gather_nd", x, index)
    sizes = [t.dim(index, axis) for axis in range(t.rank(index) - 1)]
    places = [_column(t, _positions(t, sizes, axis)) for axis in range(batch)]
    return t.op("gather_nd", x, t.op("concat", [*places, t.cast(index, "int64")], axis=-1))


@ROWS.row("ScatterElements", "Scatter")
def scatter_elements(t: Translator, n: Node, x: Value, index: Value, updates: Value) -> Any:
    axis = t.axis(n.attr("axis"), t.rank(x))
    index = from_front(t, index, t.dim(x, axis))
    sizes = [t.dim(index, i) for i in range(t.rank(index))]
    columns = [
        _column(t, t.cast(index, "int64") if i == axis else _positions(t, sizes, i))
        for i in range(len(sizes))
    ]
    places = t.op("concat", columns, axis=-1)
    return t.op("scatter_nd", x, places, updates, reduction=n.attr("reduction") or "none")


@ROWS.row("ScatterND")
def scatter_nd(t: Translator, n: Node, x: Value, index: Value, updates: Value) -> Any:
    width = t.known_dim(index, -1, "indices")
    lengths = t.slice(t.shape_vector(x), [0], [0], [width])
    places = from_front(t, index, lengths)
    return t.op("scatter_nd", x, places, updates, reduction=n.attr("reduction") or "none")


@ROWS.row("TensorScatter")
def tensor_scatter(t: Translator, n: Node, past: Value, update: Value, start: Value = None) -> Any:
    axis = t.axis(n.attr("axis"), t.rank(past))
    sizes = [t.dim(update, i) for i in range(t.rank(update))]
    place = _positions(t, sizes, axis)
    if start is not None:
        place = t.op("add", place, t.reshape(start, [-1, *[1] * (len(sizes) - 1)]))
    if n.attr("mode") == "circular":
        place = t.op("mod", place, t.dim(past, axis))
    columns = [place if i == axis else _positions(t, sizes, i) for i in range(len(sizes))]
    index = t.op("concat", [_column(t, column) for column in columns], axis=-1)
    return t.op("scatter_nd", past, index, update)


@ROWS.row("ai.onnx.ml::ArrayFeatureExtractor")
def array_feature_extractor(t: Translator, n: Node, x: Value, index: Value) -> Any:
    found = t.op("gather", x, t.reshape(index, [-1]), axis=t.rank(x) - 1)
    return t.reshape(found, [1, -1]) if t.rank(x) == 1 else found


@ROWS.row("Compress")
def compress(t: Translator, n: Node, x: Value, condition: Value) -> Any:
    axis = n.attr("axis")
    if axis is None:
        x, axis = t.reshape(x, [-1]), 0
    index = t.op("nonzero", condition)
    return t.op("gather", x, t.reshape(index, [-1]), axis=t.axis(axis, t.rank(x)))


@ROWS.row("OneHot")
def one_hot(t: Translator, n: Node, index: Value, depth: Value, values: Value) -> Any:
    count = int(t.number(depth, "depth"))
    rank = t.rank(index)
    axis = t.axis(n.attr("axis"), rank + 1)
    index = from_front(t, t.cast(index, "int64"), count)
    hot = t.op("equal", t.op("unsqueeze", index, axis=[axis]), _along(count, axis, rank + 1))
    off, on = (t.slice(values, [0], [i], [i + 1]) for i in range(2))
    return t.op("where", hot, t.reshape(on, []), t.reshape(off, []))


def _positions(t: Translator, sizes: Sequence[Any], axis: int) -> Value:
    """Return the coordinate along `axis` of each element of a shape, int64 [*sizes]."""
    size = sizes[axis]
    if isinstance(size, int):
        places: Value = _along(size, axis, len(sizes))
    else:
        counted = t.op("arange", start=0, stop=size, step=1, dtype="int64")
        places = t.reshape(counted, [-1 if i == axis else 1 for i in range(len(sizes))])
    if all(isinstance(size, int) for size in sizes):
        check_table(*sizes)
    return t.op("expand", places, shape=list(sizes))


def _column(t: Translator, x: Value) -> Value:
    return t.op("unsqueeze", x, axis=[-1])


def _along(count: int, axis: int, rank: int) -> Any:
    check_table(count)
    shape = [1] * rank
    shape[axis] = count
    return np.arange(count, dtype=np.int64).reshape(shape)
