"""unfold and fold: windows of images as columns (im2col), and their sum (col2im)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from opwright.errors import GradientError, ShapeError
from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    grad_op,
    linear_in,
)
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import Expression, read
from opwright_std.numerics.dtypes import FLOATS, ORDERED, Array
from opwright_std.numerics.windows import Axis, Ints
from opwright_std.operators.reduction import known_meta

_MAX_PADDED = 2**31 - 1


def unfold(
    x: Array, out: Array, *, kernel: Ints, strides: Ints, paddings: Ints, dilations: Ints
) -> None:
    out[...] = 0
    axes = _axes(x.shape[2:], kernel, strides, paddings, dilations)
    columns = out.reshape(*x.shape[:2], *kernel, *(axis.out for axis in axes))
    for in_columns, in_images in _over_taps(axes):
        columns[in_columns] = x[in_images]


def fold(
    x: Array,
    out: Array,
    *,
    output_size: Ints,
    kernel: Ints,
    strides: Ints,
    paddings: Ints,
    dilations: Ints,
) -> None:
    axes = _axes(output_size, kernel, strides, paddings, dilations)
    columns = x.reshape(*out.shape[:2], *kernel, *(axis.out for axis in axes))
    # Half precision accumulates in float32.
    total = np.zeros(out.shape, np.result_type(out.dtype, np.float32))
    for in_columns, in_images in _over_taps(axes):
        total[in_images] += columns[in_columns]
    out[...] = total


def _axes(
    sizes: Ints, kernel: Ints, strides: Ints, paddings: Ints, dilations: Ints
) -> tuple[Axis, Axis]:
    first, second = (
        Axis(
            sizes[i],
            _count(sizes[i], kernel[i], strides[i], sum(paddings[2 * i : 2 * i + 2]), dilations[i]),
            kernel[i],
            strides[i],
            paddings[2 * i],
            paddings[2 * i + 1],
            dilations[i],
        )
        for i in range(2)
    )
    return first, second


def _count(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + padding - (kernel - 1) * dilation - 1) // stride + 1


def _over_taps(axes: tuple[Axis, Axis]) -> Iterator[tuple[Any, Any]]:
    """Yield for each window position its slices of columns and of images."""
    rows, columns = (axis.taps() for axis in axes)
    every = (slice(None), slice(None))
    for i, (down, row) in enumerate(rows):
        for j, (over, column) in enumerate(columns):
            yield (*every, i, j, down, over), (*every, row, column)


def _count_windows(ctx: InferContext, sizes: Ints) -> int:
    """Return the number of windows in images of a size, -1 if unknown."""
    kernel, strides, paddings, dilations = (
        ctx.attr(name) for name in ("kernel", "strides", "paddings", "dilations")
    )
    for name, length in (("kernel", 2), ("strides", 2), ("dilations", 2), ("paddings", 4)):
        if len(ctx.attr(name)) != length:
            ctx.fail(f"{name} must hold {length} numbers, got {list(ctx.attr(name))}")
    total = 1
    for i, side in enumerate(("height", "width")):
        reach, padding = (kernel[i] - 1) * dilations[i] + 1, sum(paddings[2 * i : 2 * i + 2])
        if sizes[i] < 0:
            total = -1
            continue
        if not reach <= sizes[i] + padding <= _MAX_PADDED:
            ctx.fail(
                f"the kernel must fit into the padded {side}, at most {_MAX_PADDED}, got a kernel "
                f"that covers {reach} of {sizes[i]} + {padding}"
            )
        count = _count(sizes[i], kernel[i], strides[i], padding, dilations[i])
        total = total * count if total >= 0 else -1
    return total


def _unfold_shape(ctx: InferContext) -> None:
    """The output has one row per channel and kernel position, and one column per window."""
    shape = ctx.input("x").shape
    if len(shape) != 4:
        ctx.fail(f"x must be [n, channels, height, width], got {format_shape(shape)}")
    n, channels, *sizes = shape
    kernel = ctx.attr("kernel")
    windows = _count_windows(ctx, tuple(sizes))
    rows = channels * kernel[0] * kernel[1] if channels >= 0 else -1
    ctx.set_output("out", (n, rows, windows))


def _fold_shape(ctx: InferContext) -> None:
    """The output replaces the windows with output_size."""
    shape, size, kernel = ctx.input("x").shape, ctx.attr("output_size"), ctx.attr("kernel")
    if len(shape) != 3:
        ctx.fail(f"x must be [n, channels * kernel, windows], got {format_shape(shape)}")
    if len(size) != 2:
        ctx.fail(f"output_size must hold a height and a width, got {list(size)}")
    known = tuple(-1 if number is None else number for number in size)
    windows, area = _count_windows(ctx, known), kernel[0] * kernel[1]
    if not dims_match(shape[2], windows):
        ctx.fail(
            f"x must have {windows} windows for output_size={list(size)}, got {format_shape(shape)}"
        )
    if shape[1] >= 0 and shape[1] % area != 0:
        ctx.fail(f"axis 1 of x must be a multiple of {area}, the kernel's area, got {shape[1]}")
    ctx.set_output("out", (shape[0], shape[1] // area if shape[1] >= 0 else -1, *known))


def _unfold_grad_body(b: BodyContext) -> None:
    """Compositions are expanded when the plan is built, since they depend on sizes."""
    meta = b.meta(b.inputs("x")[0])
    sizes = [-1, -1] if meta is None else list(meta.shape[2:])
    if -1 in sizes:
        raise GradientError(
            f"{b.type}: the height and width of x must be known, got {sizes}; declare them"
        )
    attrs = {**b.attrs, "output_size": sizes}
    b.emit("fold", {"x": b.input("out_grad")}, {"out": b.output("x_grad")}, attrs)


def _places(b: BodyContext, windows: tuple[int, int]) -> Iterator[dict[str, list[int]]]:
    """Yield for each window position its slice of padded images."""
    kernel, strides, dilations = (b.attr(name) for name in ("kernel", "strides", "dilations"))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            starts = [i * dilations[0], j * dilations[1]]
            ends = [
                start + (count - 1) * stride + 1
                for start, count, stride in zip(starts, windows, strides, strict=True)
            ]
            yield {"axes": [2, 3], "starts": starts, "ends": ends, "steps": list(strides)}


def _window_counts(b: BodyContext, sizes: Sequence[int]) -> tuple[int, int]:
    attrs = (b.attr(name) for name in ("kernel", "strides", "paddings", "dilations"))
    rows, columns = _axes(tuple(sizes), *attrs)
    return rows.out, columns.out


def _unfold_body(b: BodyContext) -> None:
    """Compose the operator for devices without a kernel from slices of the padded images."""
    n, channels, *sizes = known_meta(b).shape
    if -1 in (channels, *sizes):
        raise ShapeError(f"{b.type}: the shape of x must be known except for n, got {sizes}")
    padded = read(b, "x").then("pad", paddings=[0, 0, 0, 0, *b.attr("paddings")])
    windows = _window_counts(b, sizes)
    parts = [padded.then("slice", **place).name for place in _places(b, windows)]
    columns = Expression(b, b.emit("stack", {"x": parts}, attrs={"axis": 2}))
    rows, count = channels * len(parts), windows[0] * windows[1]
    shape = [n, rows, count]
    b.set_output("out", columns.then("reshape", shape=shape).name)


def _fold_body(b: BodyContext) -> None:
    """Compose the operator for devices without a kernel: add each window position as a slice."""
    shape, size, paddings = known_meta(b).shape, b.attr("output_size"), b.attr("paddings")
    windows = _window_counts(b, size)
    area = b.attr("kernel")[0] * b.attr("kernel")[1]
    channels = shape[1] // area if shape[1] >= 0 else -1
    columns = read(b, "x").then("reshape", shape=[shape[0], channels, area, *windows])
    padded = [size[i] + sum(paddings[2 * i : 2 * i + 2]) for i in range(2)]
    attrs = {"shape": [shape[0], channels, *padded], "value": 0.0, "dtype": known_meta(b).dtype}
    zeros = b.emit("fill", {}, attrs=attrs)
    parts = []
    for k, place in enumerate(_places(b, windows)):
        part = columns.then("slice", axes=[2], starts=[k], ends=[k + 1]).then("squeeze", axis=[2])
        inputs = {"x": zeros, "updates": part.name}
        parts.append(b.emit("slice_scatter", inputs, attrs=place))
    total = Expression(b, b.emit("add_n", {"x": parts}))
    starts = [paddings[0], paddings[2]]
    ends = [start + length for start, length in zip(starts, size, strict=True)]
    b.set_output("out", total.then("slice", axes=[2, 3], starts=starts, ends=ends).name)


def _add_windows(maker: OpMaker) -> OpMaker:
    maker.add_attr("kernel", list[int], "height and width of a window", 2).required().at_least(1)
    maker.add_attr("strides", list[int], "distance between windows", 2).default([1, 1]).at_least(1)
    maker.add_attr("paddings", list[int], "zeros at the top, bottom, left and right", 4)
    maker.default([0, 0, 0, 0]).at_least(0)
    maker.add_attr("dilations", list[int], "distance between elements of a window", 2)
    return maker.default([1, 1]).at_least(1)


UNFOLD = _add_windows(
    OpMaker("unfold")
    .add_comment(
        "The windows of images as columns (im2col), out[n, (c * kh + i) * kw + j, window] = x[n, "
        "c, ...] at position (i, j) of the window, windows in row-major order; as "
        "torch.nn.functional."
        "unfold."
    )
    .add_input("x", "images [n, channels, height, width]")
    .dtypes(*ORDERED)
    .add_output("out", "[n, channels * kernel[0] * kernel[1], windows], dtype of x")
    .same_dtype_as("x")
).build(
    infer_shape=_unfold_shape,
    body=_unfold_body,
    gradient=grad_op("unfold_grad", gradient=linear_in("x"), body=_unfold_grad_body),
)

FOLD = _add_windows(
    OpMaker("fold")
    .add_comment(
        "Sums columns into images (col2im): each element of out is the sum of all window elements "
        "at its position. The transpose of unfold, as "
        "torch.nn.functional.fold and ONNX's Col2Im."
    )
    .add_input("x", "float [n, channels * kernel[0] * kernel[1], windows]")
    .dtypes(*FLOATS)
    .add_output("out", "[n, channels, *output_size], dtype of x")
    .same_dtype_as("x")
    .add_attr("output_size", list[int], "height and width of out", 2)
    .required()
    .between(0, 2**31 - 1)
    .as_shape_operand()
).build(
    infer_shape=_fold_shape,
    gradient=chain_rule(
        lambda grad, g: grad.then(
            "unfold", **{name: g.attr(name) for name in g.attrs if name != "output_size"}
        )
    ),
    body=_fold_body,
)
