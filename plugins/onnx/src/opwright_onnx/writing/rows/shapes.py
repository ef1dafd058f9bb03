"""Rows of operators that move or create elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opwright_onnx.dtypes import element_type, numpy_dtype
from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()

MAX_COUNTED: int = 2**20
MAX_WRITTEN: int = 1024
"""The maximum element count of a constant that is written as a tensor instead of operators."""


@ROWS.row("cast", "cast_like")
def cast(w: Writer, op: Op) -> Any:
    return w.cast(w.input(op, "x"), w.dtype(op, "out"))


@ROWS.row("expand_like")
def expand_like(w: Writer, op: Op) -> Any:
    return w.node("Expand", w.input(op, "x"), w.node("Shape", w.input(op, "like")))


@ROWS.row("linspace")
def linspace(w: Writer, op: Op) -> Any:
    count = w.known_number(op, "num")
    if count > MAX_COUNTED:
        raise DeclinedError(f"num must be at most {MAX_COUNTED}, got {count}")
    return w.const(np.linspace(op.attrs["start"], op.attrs["stop"], count), op.attrs["dtype"])


@ROWS.row("sequence_mask")
def sequence_mask(w: Writer, op: Op) -> Any:
    lengths = w.cast(w.input(op, "lengths"), "int64")
    like, count = w.input(op, "like"), op.attrs.get("max_length")
    if not like and count is None:
        raise DeclinedError("max_length must be known")
    if count is not None and count <= MAX_WRITTEN:
        steps = w.const(np.arange(count), "int64")
    else:
        bound = (
            w.const(count, "int64")
            if count is not None
            else w.node("Gather", w.node("Shape", like), w.const(1, "int64"))
        )
        steps = w.node("Range", w.const(0, "int64"), bound, w.const(1, "int64"))
    return w.node("Less", steps, w.node("Unsqueeze", lengths, w.ints([-1])))


@ROWS.row("bit_cast")
def bit_cast(w: Writer, op: Op) -> Any:
    dtype = op.attrs["dtype"]
    return w.node("BitCast", w.input(op, "x"), to=element_type(dtype), dtype=dtype)


@ROWS.row("reshape")
def reshape(w: Writer, op: Op) -> Any:
    return w.node("Reshape", w.input(op, "x"), w.numbers(op, "shape"))


@ROWS.row("reshape_like")
def reshape_like(w: Writer, op: Op) -> Any:
    return w.node("Reshape", w.input(op, "x"), w.node("Shape", w.input(op, "like")), allowzero=1)


@ROWS.row("flatten")
def flatten(w: Writer, op: Op) -> Any:
    x, first, last = w.input(op, "x"), op.attrs["start_axis"], op.attrs["stop_axis"]
    if (first, last) == (0, -1):
        return w.node("Reshape", x, w.ints([-1]))
    if (first, last) == (1, -1):
        return w.node("Flatten", x, axis=1)
    rank = len(w.shape(op))
    first, last = first % max(rank, 1), last % max(rank, 1)
    if rank == 0 or last < first:
        raise DeclinedError("the operator must join at least one axis")
    shape = w.shape(op, "out")
    if sum(size < 0 for size in shape) <= 1 and 0 not in shape:
        return w.node("Reshape", x, w.ints(shape))
    parts = [w.node("Shape", x, start=0, end=first)] if first else []
    parts.append(w.ints([-1]))
    parts += [w.node("Shape", x, start=last + 1)] if last + 1 < rank else []
    target = w.node("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
    return w.node("Reshape", x, target)


@ROWS.row("transpose")
def transpose(w: Writer, op: Op) -> Any:
    axes = [axis % len(op.attrs["axes"]) for axis in op.attrs["axes"]]
    return w.node("Transpose", w.input(op, "x"), perm=axes or None)


@ROWS.row("squeeze", "unsqueeze")
def squeeze(w: Writer, op: Op) -> Any:
    axes = op.attrs["axis"]
    axes = [axes] if isinstance(axes, int) else list(axes)
    name = "Squeeze" if op.type == "squeeze" else "Unsqueeze"
    if not axes and op.type == "unsqueeze":
        return w.input(op, "x")
    return w.node(name, w.input(op, "x"), w.ints(axes) if axes else "")


@ROWS.row("stack")
def stack(w: Writer, op: Op) -> Any:
    place = w.ints([op.attrs["axis"]])
    parts = [w.node("Unsqueeze", name, place) for name in w.inputs(op, "x")]
    return w.node("Concat", *parts, axis=op.attrs["axis"])


@ROWS.row("unstack")
def unstack(w: Writer, op: Op) -> Any:
    axis, count = op.attrs["axis"], len(op.outputs["out"])
    parts = w.node("Split", w.input(op, "x"), outputs=count, axis=axis, num_outputs=count)
    return [[w.node("Squeeze", part, w.ints([axis])) for part in parts]]


@ROWS.row("split")
def split(w: Writer, op: Op) -> Any:
    x, axis, count = w.input(op, "x"), op.attrs["axis"], len(op.outputs["out"])
    sections = w.items(op, "sections")
    if sections:
        return [list(w.node("Split", x, w.vector(sections), outputs=count, axis=axis))]
    return [list(w.node("Split", x, outputs=count, axis=axis, num_outputs=count))]


@ROWS.row("slice")
def slice_(w: Writer, op: Op) -> Any:
    axes = list(op.attrs["axes"])
    if not axes:
        return w.input(op, "x")
    bounds = [w.numbers(op, name) for name in ("starts", "ends")]
    steps = w.items(op, "steps")
    paces = [w.vector(steps)] if steps and steps != [1] * len(steps) else []
    return w.node("Slice", w.input(op, "x"), *bounds, w.ints(axes), *paces)


@ROWS.row("flip")
def flip(w: Writer, op: Op) -> Any:
    axes = list(op.attrs["axis"]) or list(range(len(w.shape(op))))
    if not axes:
        return w.input(op, "x")
    least = np.iinfo(np.int64).min
    vectors = [w.ints([number] * len(axes)) for number in (-1, least)]
    return w.node("Slice", w.input(op, "x"), *vectors, w.ints(axes), w.ints([-1] * len(axes)))


@ROWS.row("roll")
def roll(w: Writer, op: Op) -> Any:
    x, shape = w.input(op, "x"), w.shape(op)
    axes, shifts = list(op.attrs["axis"]), op.attrs["shift"]
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if not axes:
        raise DeclinedError("the axes must be given")
    for axis, shift in zip(axes, shifts, strict=True):
        size = shape[axis]
        if size < 1:
            raise DeclinedError("the lengths of the axes must be known")
        cut, place = w.ints([-shift % size]), w.ints([axis])
        back = w.node("Slice", x, cut, w.ints([size]), place)
        front = w.node("Slice", x, w.ints([0]), cut, place)
        x = w.node("Concat", back, front, axis=axis)
    return x


@ROWS.row("expand")
def expand(w: Writer, op: Op) -> Any:
    sizes = [1 if size == -1 else size for size in w.items(op, "shape")]
    return w.node("Expand", w.input(op, "x"), w.vector(sizes))


@ROWS.row("tile")
def tile(w: Writer, op: Op) -> Any:
    x, repeats, rank = w.input(op, "x"), w.items(op, "repeats"), len(w.shape(op))
    if len(repeats) > rank:
        x = w.node("Unsqueeze", x, w.ints(range(len(repeats) - rank)))
    return w.node("Tile", x, w.vector([1] * (rank - len(repeats)) + repeats))


@ROWS.row("pad")
def pad(w: Writer, op: Op) -> Any:
    x, widths, mode = w.input(op, "x"), w.items(op, "paddings"), op.attrs["mode"]
    if not widths:
        return x
    if mode != "constant" and any(isinstance(n, int) and n < 0 for n in widths):
        raise DeclinedError(f"paddings must not be negative with mode {mode}")
    extra = [w.number(op.attrs["value"], x)] if mode == "constant" and op.attrs["value"] else []
    return w.node("Pad", x, w.vector(widths[::2] + widths[1::2]), *extra, mode=mode)


@ROWS.row("shape")
def shape(w: Writer, op: Op) -> Any:
    return w.node("Shape", w.input(op, "x"))


@ROWS.row("size")
def size(w: Writer, op: Op) -> Any:
    return w.node("Reshape", w.node("Size", w.input(op, "x")), w.ints(w.shape(op, "out")))


@ROWS.row("fill")
def fill(w: Writer, op: Op) -> Any:
    sizes, dtype, value = w.items(op, "shape"), op.attrs["dtype"], op.attrs["value"]
    if all(isinstance(n, int) for n in sizes) and math.prod(sizes) <= MAX_WRITTEN:
        return w.const(np.full(sizes, value), dtype)
    return _constant_of(w, w.vector(sizes), value, dtype)


def _constant_of(w: Writer, sizes: str, value: float, dtype: str) -> str:
    number = w.tensor(np.full(1, value).astype(numpy_dtype(dtype)))
    return str(w.node("ConstantOfShape", sizes, value=number, dtype=dtype))


@ROWS.row("fill_like")
def fill_like(w: Writer, op: Op) -> Any:
    sizes = w.node("Shape", w.input(op, "x"))
    return _constant_of(w, sizes, op.attrs["value"], w.dtype(op, "out"))


@ROWS.row("constant")
def constant(w: Writer, op: Op) -> Any:
    return w.const(np.array(op.attrs["values"]).reshape(op.attrs["shape"]), op.attrs["dtype"])


@ROWS.row("arange")
def arange(w: Writer, op: Op) -> Any:
    dtype = op.attrs["dtype"]
    bounds = [w.items(op, name)[0] for name in ("start", "stop", "step")]
    if not any(isinstance(bound, str) for bound in bounds):
        start, stop, step = bounds
        if (stop - start) / step <= MAX_WRITTEN:
            return w.const(np.arange(start, stop, step), dtype)
    if not dtype.startswith("int"):
        raise DeclinedError("bounds computed at run time must be integers")
    numbers = [
        w.cast(w.node("Reshape", b, w.ints([])), dtype) if isinstance(b, str) else w.const(b, dtype)
        for b in bounds
    ]
    return w.node("Range", *numbers)


@ROWS.row("tril", "triu")
def trilu(w: Writer, op: Op) -> Any:
    diagonal = w.const(op.attrs["k"], "int64")
    return w.node("Trilu", w.input(op, "x"), diagonal, upper=int(op.type == "triu"))


@ROWS.row("pixel_shuffle")
def pixel_shuffle(w: Writer, op: Op) -> Any:
    if op.attrs["data_format"] != "NCHW":
        raise DeclinedError("data_format must be NCHW")
    return w.node("DepthToSpace", w.input(op, "x"), blocksize=op.attrs["factor"], mode="CRD")


@ROWS.row("sequence_reverse")
def sequence_reverse(w: Writer, op: Op) -> Any:
    lengths = w.cast(w.input(op, "lengths"), "int64")
    return w.node("ReverseSequence", w.input(op, "x"), lengths, batch_axis=0, time_axis=1)
