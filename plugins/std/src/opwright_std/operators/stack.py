"""stack and unstack: tensors of one shape along a new axis, and back."""

from __future__ import annotations

from functools import reduce

import numpy as np

from opwright.op import (
    GradientContext,
    InferContext,
    OpMaker,
    Shape,
    format_shape,
    merge_dims,
    normalize_axis,
    shapes_match,
)
from opwright_std.numerics.dtypes import Array


def stack(x: tuple[Array, ...], out: Array, *, axis: int) -> None:
    np.stack(x, axis=axis, out=out)


def unstack(x: Array, out: tuple[Array, ...], *, axis: int, num: int | None) -> None:
    for part, line in zip(out, np.moveaxis(x, axis, 0), strict=True):
        np.copyto(part, line)


def _stack_shape(ctx: InferContext) -> None:
    """The output has a new axis with one index per input; the other axes are as in x."""
    shapes = [meta.shape for meta in ctx.inputs("x")]
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shapes[0]) + 1)
    for shape in shapes:
        if not shapes_match(shape, shapes[0]):
            pair = f"{format_shape(shapes[0])} and {format_shape(shape)}"
            ctx.fail(f"all x must have the same shape, got {pair}")
    kept: Shape = reduce(lambda a, b: tuple(map(merge_dims, a, b)), shapes)
    ctx.set_output("out", (*kept[:axis], len(shapes), *kept[axis:]))


def _stack_gradient(g: GradientContext) -> None:
    attrs = {"axis": g.attr("axis"), "num": len(g.inputs("x"))}
    outputs = {"out": len(g.inputs("x"))}
    parts = g.emit_multi("unstack", {"x": g.output_grad("out")}, outputs, attrs)["out"]
    for i, part in enumerate(parts):
        g.set_input_grad("x", part, i)


STACK = (
    OpMaker("stack")
    .add_comment("Joins tensors of equal shape along a new axis, as numpy.stack.")
    .add_input("x", "one or more tensors of one shape and dtype")
    .as_duplicable()
    .same_dtype_as("x")
    .add_output("out", "shape of x[0] with the number of tensors inserted at axis")
    .same_dtype_as("x")
    .add_attr("axis", int, "position of the new axis in out")
    .default(0)
    .build(infer_shape=_stack_shape, gradient=_stack_gradient)
)


def _unstack_shape(ctx: InferContext) -> None:
    """Each output has the shape of x without the axis."""
    shape = ctx.input("x").shape
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape))
    count = ctx.output_count("out")
    num = ctx.attr("num") or count
    ctx.require(num == count, f"out must have num={num} variables, got {count}")
    if shape[axis] not in (-1, num):
        ctx.fail(f"num must be the length of axis {axis}, {shape[axis]}, got {num}")
    ctx.set_outputs("out", [(*shape[:axis], *shape[axis + 1 :])] * count)


def _count(ctx: InferContext) -> int:
    shape, num = ctx.input("x").shape, ctx.attr("num")
    length = shape[normalize_axis(ctx, ctx.attr("axis"), len(shape))]
    ctx.require(num or length > 0, f"num must be the number of outputs, got length {length}")
    count: int = num or length
    return count


def _unstack_gradient(g: GradientContext) -> None:
    grads = g.filled_output_grads("out")
    g.set_input_grad("x", g.emit("stack", {"x": grads}, attrs={"axis": g.attr("axis")}))


UNSTACK = (
    OpMaker("unstack")
    .add_comment("Splits a tensor into slices along an axis, which is removed, as numpy.unstack.")
    .add_input("x", "at least 1-d, any dtype, not empty along axis")
    .add_output("out", "the slices in order, shape of x without axis; dtype of x")
    .as_duplicable()
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis to split")
    .default(0)
    .add_attr("num", int, "length of axis; absent: that of x")
    .at_least(1)
    .build(infer_shape=_unstack_shape, gradient=_unstack_gradient, count_outputs=_count)
)
