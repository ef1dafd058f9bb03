"""Reads and sets slices of tensors."""

from __future__ import annotations

import math
from typing import Any, Final

import opwright as ow
from opwright_torch.aten.shapes import axis_of, identity, rank, with_shape
from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.sizes import Size
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()

LAST: Final = 2**63 - 1
"""The end of a slice that extends to the last element, as in PyTorch."""


@ROWS.row("aten::select", "aten::select_copy")
def select(t: Translator, input: Value, dim: int, index: int) -> Value:
    """Return the slice at one index of an axis."""
    axis = axis_of(input, dim)
    length = t.shape(input)[axis]
    if length in (2, 3, 4):
        parts = _apart(t, input, axis, [index % length])
        if parts is not None:
            return parts[0]
    cut = _slice(t, input, axis, index, index + 1 if index != -1 else LAST)
    return t.op("squeeze", cut, axis=[axis])


def _slice(t: Translator, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    return t.op("slice", x, axes=[axis], starts=[start], ends=[end], steps=[step])


@ROWS.row("aten::slice", "aten::slice_copy")
def slice_(
    t: Translator,
    input: Value,
    dim: int = 0,
    start: Value = None,
    end: Value = None,
    step: int = 1,
) -> Value:
    """Return the slice from `start` to `end`, exclusive."""
    if t.shape(input) == t.shape():
        return input
    axis = axis_of(input, dim)
    return _slice(t, input, axis, start or 0, LAST if end is None else end, step)


@ROWS.row("aten::narrow", "aten::narrow_copy")
def narrow(t: Translator, input: Value, dim: int, start: Value, length: int) -> Value:
    """Return `length` elements from `start`."""
    if isinstance(start, ow.Variable):
        raise Decline("start is a tensor")
    axis = axis_of(input, dim)
    begin = start % t.shape(input)[axis] if start < 0 else start
    return _slice(t, input, axis, begin, begin + length)


def _parts(t: Translator, input: Value, dim: int) -> Value:
    """Split the input along an axis into chunks with the sizes that PyTorch returns."""
    axis = axis_of(input, dim)
    sections = [t.size(part.shape[axis]) for part in t.meta()]
    if len(sections) == 1:
        return (input,)
    return t.op("split", input, axis=axis, sections=sections)


@ROWS.row("aten::split", "aten::split_copy", "aten::split_with_sizes", "aten::chunk")
@ROWS.row("aten::split_with_sizes_copy", "aten::tensor_split", "aten::unsafe_split")
@ROWS.row("aten::unsafe_chunk", "aten::unsafe_split_with_sizes")
def split(t: Translator, input: Value, dim: int = 0, **_: Value) -> Value:
    """Split the input along an axis into chunks with PyTorch's sizes."""
    return _parts(t, input, dim)


ROWS["aten::hsplit"] = lambda t, input, **_: _parts(t, input, 1 if rank(input) > 1 else 0)
ROWS["aten::vsplit"] = lambda t, input, **_: _parts(t, input, 0)
ROWS["aten::dsplit"] = lambda t, input, **_: _parts(t, input, 2)


@ROWS.row("aten::unbind", "aten::unbind_copy")
def unbind(t: Translator, input: Value, dim: int = 0) -> Value:
    """Return the slices at all indices of an axis."""
    axis = axis_of(input, dim)
    if not t.shape(input)[axis]:
        raise Decline(f"axis {axis} is empty")
    parts = _apart(t, input, axis, list(range(t.shape(input)[axis])))
    return parts or t.op("unstack", input, axis=axis, num=t.shape(input)[axis])


def _apart(t: Translator, x: Value, axis: int, places: list[int]) -> tuple[Value, ...] | None:
    """Return the slices along an axis from a split of the layer output that contains them.

    Queries, keys and values then come from one split, and their heads are transposed after the
    split. Attention passes match this pattern. Return None if `x` does not result from reshaping
    and transposing a layer output.
    """
    if (written := t.writer(x, "transpose", "reshape")) is None:
        return None
    source: Value = t.block.var(written.input("x")[0])
    if written.type == "transpose":
        axes: list[int] = list(written.attrs["axes"])  # type: ignore[arg-type]
        own = axes.pop(axis)
        parts = _apart(t, source, own, places)
        order = [other - (other > own) for other in axes]
        if parts is None or order == sorted(order):
            return parts
        return tuple(t.op("transpose", part, axes=order) for part in parts)
    if rank(source) != axis + 1 or t.shape(source)[:axis] != t.shape(x)[:axis]:
        return None
    parts = _split_once(t, source, axis, t.shape(x)[axis])
    shape = [*t.shape(x)[:axis], *t.shape(x)[axis + 1 :]]
    return tuple(with_shape(t, parts[place], shape) for place in places)


def _split_once(t: Translator, x: Value, axis: int, num: int) -> tuple[Value, ...]:
    """Return equal chunks along an axis; reuse an existing split if possible."""
    attrs = {"axis": axis, "num": num}
    for op in t.block.ops:
        if op.type == "split" and op.input("x") == (x.name,) and attrs.items() <= op.attrs.items():
            return tuple(map(t.block.var, op.output("out")))
    parts: tuple[Value, ...] = t.op("split", x, **attrs)
    return parts


@ROWS.row("aten::as_strided", "aten::as_strided_copy")
def as_strided(
    t: Translator, input: Value, size: Value, stride: Value, storage_offset: Value = None
) -> Value:
    """Return elements of contiguous memory, given sizes, strides and a storage offset."""
    total, offset = math.prod(t.shape(input)), storage_offset or 0
    source = t.meta(t.node.args[0])
    if not source.is_contiguous() or source.storage_offset():
        raise Decline(f"strides={source.stride()}, storage_offset={source.storage_offset()}")
    if 0 in size:
        return t.full(0, [*size], input.dtype)
    flat = with_shape(t, input, [total])
    # Contiguous trailing axes are read together, in rows of `width` elements.
    n, width = len(size), 1
    while n and (size[n - 1] == 1 or stride[n - 1] == width):
        width, n = width * size[n - 1], n - 1
    if not n:
        part = flat if width == total else _slice(t, flat, 0, offset, offset + width)
        return with_shape(t, part, [*size])
    if any(step % width for step in (*stride[:n], offset, total)):
        n, width = len(size), 1
    place = t.full(offset // width, [], "int64")
    for axis, (length, step) in enumerate(zip(size[:n], stride[:n])):
        if length != 1:
            counted = t.op("cumsum", t.full(1, [length], "int64"), axis=0)
            steps = t.op("multiply", t.op("subtract", counted, 1), step // width)
            place = t.op("add", place, with_shape(t, steps, [length] + [1] * (n - 1 - axis)))
    rows = t.op("gather", with_shape(t, flat, [total // width, width]), place, axis=0)
    return with_shape(t, rows, [*size])


def transposed_last(t: Translator, x: Value, dims: list[int]) -> Value:
    """Move some axes of `x` to the end."""
    axes = [axis for axis in range(rank(x)) if axis not in dims] + dims
    return x if axes == list(range(rank(x))) else t.op("transpose", x, axes=axes)


@ROWS.row("aten::diagonal", "aten::diagonal_copy", "aten::linalg_diagonal")
def diagonal(t: Translator, input: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Return the diagonal of two axes as the last axis."""
    x = transposed_last(t, input, [axis_of(input, dim1), axis_of(input, dim2)])
    *batch, rows, columns = t.shape(x)
    length = t.shape()[-1]
    if not length or not math.prod(t.shape(x)):
        return t.full(0, t.shape(), x.dtype)
    first = offset if offset >= 0 else -offset * columns
    flat = with_shape(t, x, [*batch, rows * columns])
    end = first + (length - 1) * (columns + 1) + 1
    return _slice(t, flat, len(batch), first, end, columns + 1)


@ROWS.row("aten::unfold", "aten::unfold_copy")
def unfold(t: Translator, input: Value, dimension: int, size: int, step: int) -> Value:
    """Return the windows of an axis, with the window elements as the last axis."""
    axis = axis_of(input, dimension)
    count = t.shape()[axis]
    if rank(input) == 0:
        raise Decline("a scalar has no axis")
    if isinstance(count, Size):
        starts, offsets = (t.op("arange", start=0, stop=n, dtype="int64") for n in (count, size))
        starts = t.op("unsqueeze", t.op("multiply", starts, step), axis=[1])
        index = t.op("add", starts, offsets)
        return transposed_last(t, t.op("gather", input, index, axis=axis), [axis + 1])
    if size == step:
        cut = _slice(t, input, axis, 0, count * step)
        shape = t.shape(input)
        x = with_shape(t, cut, [*shape[:axis], count, size, *shape[axis + 1 :]])
        return transposed_last(t, x, [axis + 1])
    places = [i * step + j for i in range(count) for j in range(size)]
    index = t.op("constant", values=places, shape=[count, size], dtype="int64")
    return transposed_last(t, t.op("gather", input, index, axis=axis), [axis + 1])


@ROWS.row("aten::slice_scatter")
def slice_scatter(
    t: Translator,
    input: Value,
    src: Value,
    dim: int = 0,
    start: Value = None,
    end: Value = None,
    step: int = 1,
) -> Value:
    """Replace one slice of the input."""
    x, updates = t.promote(input, src)
    if t.shape(x) == t.shape(updates) and step == 1:
        return updates
    box: dict[str, Any] = {"starts": [start or 0], "ends": [LAST if end is None else end]}
    axis = axis_of(input, dim)
    return t.op("slice_scatter", x, updates, axes=[axis], steps=[step], **box)


@ROWS.row("aten::select_scatter")
def select_scatter(t: Translator, input: Value, src: Value, dim: int, index: int) -> Value:
    """Replace the slice of the input at one index of an axis."""
    axis = axis_of(input, dim)
    x, updates = t.promote(input, src)
    updates = t.op("unsqueeze", updates, axis=[axis])
    ends = [index + 1 if index != -1 else LAST]
    return t.op("slice_scatter", x, updates, axes=[axis], starts=[index], ends=ends, steps=[1])


@ROWS.row("aten::diag_embed")
def diag_embed(
    t: Translator, input: Value, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Value:
    """Return matrices with the input on a diagonal and zeros elsewhere."""
    n = t.shape(input)[-1] + abs(offset)
    border = [0] * (2 * rank(input) - 2) + [max(-offset, 0), max(offset, 0)]
    line = t.op("pad", input, paddings=border) if offset else input
    line = t.op("unsqueeze", line, axis=[rank(input)])
    mask = t.cast(identity(t, n, n, "float32", offset), "bool")
    x = t.op("where", mask, line, t.full(0, (), input.dtype))
    last = [dim % rank(x) for dim in (dim1, dim2)]
    places = [axis for axis in range(rank(x)) if axis not in last] + last
    axes = sorted(range(rank(x)), key=places.__getitem__)
    return x if axes == list(range(rank(x))) else t.op("transpose", x, axes=axes)
