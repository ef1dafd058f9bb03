"""Rows of operators that move elements: reshape, slice, concatenate, pad."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import opwright as ow
from opwright_onnx.errors import DeclinedError, ModelError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.sizes import Sizes
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value, check_table
from opwright_onnx.translate.walking import call_row

ROWS = Rows()


@ROWS.row("Reshape")
def reshape(t: Translator, n: Node, x: Value, shape: Value) -> Any:
    target = t.array(shape)
    if target is None:
        return t.reshape(x, t.sizes(shape))
    sizes: list[Any] = [int(dim) for dim in target.reshape(-1)]
    if n.attr("allowzero") and 0 in sizes:
        if -1 in sizes:
            raise ModelError("shape must not have both 0 and -1 if allowzero is set")
        return t.full(0, sizes, t.dtype(x)) if 0 in t.shape(x) else t.op("reshape", x, shape=sizes)
    return t.reshape(x, sizes)


@ROWS.row("Flatten")
def flatten(t: Translator, n: Node, x: Value) -> Any:
    rank, axis = t.rank(x), n.attr("axis", 1)
    axis = axis + rank if axis < 0 else axis
    if not 0 <= axis <= rank:
        raise ModelError(f"axis must be in [{-rank}, {rank}], got {n.attr('axis')}")
    shape = t.shape(x)
    front, back = _product(shape[:axis]), _product(shape[axis:])
    if front is None and back is None:
        if axis == 1:
            return t.op("flatten", x, start_axis=1, stop_axis=-1)
        front = t.sizes(t.op("prod", t.slice(t.shape_vector(x), [0], [0], [axis])))[0]
    return t.reshape(x, [-1 if front is None else front, -1 if back is None else back])


def _product(dims: list[int | None]) -> int | None:
    return None if None in dims else math.prod(dim for dim in dims if dim is not None)


@ROWS.row("Transpose")
def transpose(t: Translator, n: Node, x: Value) -> Any:
    axes = n.attr("perm") or list(reversed(range(t.rank(x))))
    return t.op("transpose", x, axes=axes) if axes else t.op("assign", x)


@ROWS.row("Squeeze")
def squeeze(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    places = n.attr("axes") if n.opset < 13 else None if axes is None else t.ints(axes, "axes")
    if places is None:
        t.known_shape(x, "input") if None in t.shape(x) else None
        places = [i for i, dim in enumerate(t.shape(x)) if dim == 1]
    return t.op("squeeze", x, axis=places) if places else t.op("assign", x)


@ROWS.row("Unsqueeze")
def unsqueeze(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    places = n.attr("axes") if n.opset < 13 else t.ints(axes, "axes")
    return t.op("unsqueeze", x, axis=places) if places else t.op("assign", x)


@ROWS.row("Expand")
def expand(t: Translator, n: Node, x: Value, shape: Value) -> Any:
    sizes = t.sizes(shape)
    if t.array(shape) is not None:
        known = t.shape(x)
        rank = max(len(sizes), len(known))
        sizes = [1] * (rank - len(sizes)) + sizes
        own = [1] * (rank - len(known)) + known
        if None not in own:
            places = [dim if size == 1 else size for size, dim in zip(sizes, own)]
            return t.op("expand", x, shape=places)
    return t.op("logical_or" if t.dtype(x) == "bool" else "add", x, t.full(0, sizes, t.dtype(x)))


@ROWS.row("Tile")
def tile(t: Translator, n: Node, x: Value, repeats: Value) -> Any:
    return t.op("tile", x, repeats=t.sizes(repeats))


@ROWS.row("Split")
def split(t: Translator, n: Node, x: Value, sizes: Value = None) -> Any:
    axis = t.axis(n.attr("axis", 0), t.rank(x))
    sections = n.attr("split") if n.opset < 13 else None
    if sizes is not None and t.array(sizes) is None:
        return _cut(t, x, axis, _read_items(t, sizes, "split"))
    if sizes is not None:
        sections = t.ints(sizes, "split")
    if sections is None:
        count = n.attr("num_outputs") or n.n_outputs
        length = t.shape(x)[axis]
        if length is None and n.attr("num_outputs"):  # the last chunk may be shorter
            most = t.op("floor_divide", t.op("add", t.dim(x, axis), count - 1), count)
            return _cut(t, x, axis, [most] * count)
        if length is None or length % count == 0:
            return tuple(t.op("split", x, axis=axis, num=count))
        each = -(-length // count)
        sections = [min(each, max(length - each * i, 0)) for i in range(count)]
    return tuple(t.op("split", x, axis=axis, sections=sections))


def _cut(t: Translator, x: Value, axis: int, lengths: list[Any]) -> tuple[Value, ...]:
    """Split an axis into parts of lengths that a run computes; the last parts may be shorter."""
    found: list[Value] = []
    start: Any = 0
    for length in lengths:
        if isinstance(start, int):
            end = start + length if isinstance(length, int) else t.op("add", length, start)
        else:
            end = t.op("add", start, length)
        found.append(t.slice(x, [axis], [start], [end]))
        start = end
    return tuple(found)


@ROWS.row("Slice")
def slice_(t: Translator, n: Node, x: Value, *bounds: Value) -> Any:
    rank = t.rank(x)
    if n.opset < 10:
        starts, ends = n.attr("starts"), n.attr("ends")
        axes, steps = n.attr("axes") or list(range(len(starts))), [1] * len(starts)
    else:
        first, last, *rest = bounds
        count = math.prod(t.known_shape(first, "starts"))  # some exporters write scalars
        named = rest[0] if rest else None
        axes = list(range(count)) if named is None else t.ints(named, "axes")
        pace = rest[1] if len(rest) > 1 else None
        steps = [1] * count if pace is None else t.ints(pace, "steps")
        starts, ends = t.sizes(first), t.sizes(last)
    axes = [t.axis(axis, rank, "axes") for axis in axes]
    starts, ends = _bounded(starts), _bounded(ends)
    named_steps: dict[str, Any] = {} if set(steps) <= {1} else {"steps": steps}
    return t.op("slice", x, axes=axes, starts=starts, ends=ends, **named_steps)


def _bounded(places: list[Any]) -> list[Any]:
    """Clip known slice bounds to ±2**62, which is outside any axis, to avoid overflow."""
    far = 2**62
    return [p if isinstance(p, ow.Variable) else min(max(p, -far), far) for p in places]


@ROWS.row("Pad")
def pad(
    t: Translator, n: Node, x: Value, pads: Value = None, value: Value = None, axes: Value = None
) -> Any:
    rank = t.rank(x)
    widths = n.attr("pads") if n.opset < 11 else _read_items(t, pads, "pads")
    number = n.attr("value", 0.0) if value is None else t.number(value, "constant_value")
    chosen = list(range(rank)) if axes is None else [t.axis(a, rank) for a in t.ints(axes, "axes")]
    half = len(chosen)
    if len(widths) != 2 * half:
        raise ModelError(f"pads must have {2 * half} numbers for {half} axes, got {len(widths)}")
    pairs: list[list[Any]] = [[0, 0] for _ in range(rank)]
    for i, axis in enumerate(chosen):
        pairs[axis] = [widths[i], widths[i + half]]
    is_natural = isinstance(pads, Sizes) and pads.is_natural
    for axis, pair in enumerate(pairs):
        x = _cropped(t, x, axis, pair, is_natural)
        pairs[axis] = [_limited(t, w, is_natural) for w in pair]
    mode = n.attr("mode") or "constant"
    flat = [width for pair in pairs for width in pair]
    if not any(not isinstance(width, int) or width for width in flat):
        return t.op("assign", x)
    if mode == "wrap":
        return _wrap(t, x, pairs)
    extra: dict[str, Any] = {"value": number} if mode == "constant" else {}
    return t.op("pad", x, paddings=flat, mode=mode, **extra)


def _read_items(t: Translator, value: Value, what: str) -> list[Any]:
    """Return the items of a vector as integers, and as Variables if a run computes them."""
    if isinstance(value, Sizes):
        return list(value.items)
    if t.array(value) is not None:
        return t.ints(value, what)
    count = t.known_dim(value, 0, what)
    wide = t.cast(value, "int64")
    return [t.slice(wide, [0], [i], [i + 1]) for i in range(count)]


def _cropped(t: Translator, x: Value, axis: int, pair: list[Any], is_natural: bool) -> Value:
    """Remove elements at the ends of an axis where a padding is negative."""
    if is_natural or all(isinstance(width, int) and width >= 0 for width in pair):
        return x
    low, high = (_limited(t, t.times(width, -1), False) for width in pair)
    if isinstance(high, int):
        return t.slice(x, [axis], [low], [-high if high else 2**62])
    length = t.dim(x, axis)
    end = t.op("subtract", np.array([length]) if isinstance(length, int) else length, high)
    return t.slice(x, [axis], [low], [end])


def _limited(t: Translator, width: Any, is_natural: bool) -> Any:
    """Return a padding, or 0 where it is negative."""
    if isinstance(width, int):
        return max(width, 0)
    return width if is_natural else t.op("maximum", width, 0)


def _wrap(t: Translator, x: Value, pairs: list[list[Any]]) -> Value:
    for axis, (before, after) in enumerate(pairs):
        if not before and not after:
            continue
        length = t.dim(x, axis)
        if isinstance(length, int) and isinstance(before, int) and isinstance(after, int):
            check_table(max(before + length + after, 0))
            index: Value = np.arange(-before, length + after, dtype=np.int64) % length
        else:
            stop = t.op("add", t.op("add", length, before), after)
            index = t.op("subtract", t.op("arange", stop=stop, dtype="int64"), before)
            index = t.op("mod", index, length)
        x = t.op("gather", x, index, axis=axis)
    return x


@ROWS.row("DepthToSpace")
def depth_to_space(t: Translator, n: Node, x: Value) -> Any:
    factor = n.attr("blocksize")
    batch, _, rows, columns = (t.dim(x, i) for i in range(4))
    deep = t.known_dim(x, 1, "channels") // factor**2
    if n.attr("mode") == "CRD":
        return t.op("pixel_shuffle", x, factor=factor)
    parts = t.reshape(x, [batch, factor, factor, deep, rows, columns])
    moved = t.transpose(parts, [0, 3, 4, 1, 5, 2])
    return t.reshape(moved, [batch, deep, t.times(rows, factor), t.times(columns, factor)])


@ROWS.row("SpaceToDepth")
def space_to_depth(t: Translator, n: Node, x: Value) -> Any:
    factor = n.attr("blocksize")
    batch, depth = t.dim(x, 0), t.known_dim(x, 1, "channels")
    rows, columns = (_divided(t, t.dim(x, axis), factor) for axis in (2, 3))
    parts = t.reshape(x, [batch, depth, rows, factor, columns, factor])
    order = [0, 1, 3, 5, 2, 4] if n.attr("mode") == "CRD" else [0, 3, 5, 1, 2, 4]
    moved = t.transpose(parts, order)
    return t.reshape(moved, [batch, depth * factor**2, rows, columns])


def _divided(t: Translator, size: Any, factor: int) -> Any:
    return size // factor if isinstance(size, int) else t.op("floor_divide", size, factor)


@ROWS.row("Trilu")
def trilu(t: Translator, n: Node, x: Value, k: Value = None) -> Any:
    diagonal = 0 if k is None else int(t.number(k, "k"))
    return t.op("triu" if n.attr("upper", 1) else "tril", x, k=diagonal)


@ROWS.row("ReverseSequence")
def reverse_sequence(t: Translator, n: Node, x: Value, lengths: Value) -> Any:
    time, batch = n.attr("time_axis"), n.attr("batch_axis")
    order = [batch, time, *(i for i in range(t.rank(x)) if i not in (batch, time))]
    found = t.op("sequence_reverse", t.transpose(x, order), t.cast(lengths, "int64"))
    return t.transpose(found, [order.index(i) for i in range(len(order))])


@ROWS.row("CenterCropPad")
def center_crop_pad(t: Translator, n: Node, x: Value, shape: Value) -> Any:
    sizes = t.ints(shape, "shape")
    axes = n.attr("axes") or list(range(t.rank(x)))
    for axis, size in zip(axes, sizes, strict=True):
        length = t.known_dim(x, axis, "input")
        if size < length:
            start = (length - size) // 2
            x = t.slice(x, [axis], [start], [start + size])
        elif size > length:
            before = (size - length) // 2
            widths = [0] * (2 * t.rank(x))
            place = t.axis(axis, t.rank(x))
            widths[2 * place : 2 * place + 2] = [before, size - length - before]
            x = t.op("pad", x, paddings=widths)
    return x


@ROWS.row("Upsample")
def upsample(t: Translator, n: Node, x: Value, scales: Value = None) -> Any:
    factors = n.attr("scales") if scales is None else t.need(scales, "scales").reshape(-1).tolist()
    if not factors:
        raise DeclinedError("scales must be given")
    mode = "nearest" if n.attr("mode") == "nearest" else "linear"
    return call_row(
        t,
        "Resize",
        x,
        None,
        np.array(factors, np.float32),
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
