"""flip and roll: elements that change their place along axes, as many as before."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    INT_MAX,
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    normalize_axes,
)
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.reduction import known_meta

Ints = tuple[int, ...]


def flip(x: Array, out: Array, *, axis: Ints) -> None:
    np.copyto(out, np.flip(x, axis if axis and x.ndim else None))


def roll(x: Array, out: Array, *, shift: Ints, axis: Ints) -> None:
    if axis and x.ndim:
        np.copyto(out, np.roll(x, _within(shift, [x.shape[i] for i in axis]), axis))
    else:
        np.copyto(out, np.roll(x, _within(shift[:1], [x.size])))


def _within(shift: Ints, lengths: list[int]) -> Ints:
    """Return shifts of less than a length: numpy.roll itself overflows beyond 32 bits."""
    return tuple(by % n if n else 0 for by, n in zip(shift, lengths, strict=True))


def _flip_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    shape, axis = ctx.input("x").shape, ctx.attr("axis")
    if axis:
        normalize_axes(ctx, axis, len(shape), scalar=True)
    ctx.set_output("out", shape)


def _flip_gradient(g: GradientContext) -> None:
    inputs = {"x": g.output_grad("out")}
    g.set_input_grad("x", g.emit("flip", inputs, attrs={"axis": g.attr("axis")}))


FLIP = (
    OpMaker("flip")
    .add_comment("The elements of x in reverse order along some axes, as numpy.flip.")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", list[int], "the axes that are turned round; none given: all")
    .default([])
    .build(infer_shape=_flip_shape, gradient=_flip_gradient)
)


def _roll_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    shape, shift, axis = ctx.input("x").shape, ctx.attr("shift"), ctx.attr("axis")
    if len(shift) != (len(axis) or 1):
        ctx.fail(
            f"shift must have one number for each axis, or one without axes, got "
            f"shift={list(shift)}, axis={list(axis)}"
        )
    if axis:
        normalize_axes(ctx, axis, len(shape), scalar=True)
    ctx.set_output("out", shape)


def _roll_gradient(g: GradientContext) -> None:
    attrs = {"shift": [-by for by in g.attr("shift")], "axis": g.attr("axis")}
    g.set_input_grad("x", g.emit("roll", {"x": g.output_grad("out")}, attrs=attrs))


ROLL = (
    OpMaker("roll")
    .add_comment(
        "Move elements along axes by shift places: what leaves at one end enters at the other, as "
        "numpy.roll. Without axes the elements move in row-major order."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("shift", list[int], "by how many places, below 0 towards the front")
    .required()
    .at_least(-INT_MAX)
    .add_attr("axis", list[int], "the axis of each shift; none given: all elements as one axis")
    .default([])
    .build(infer_shape=_roll_shape, gradient=_roll_gradient)
)


def _rot90_shape(ctx: InferContext) -> None:
    """The output is x with the two axes exchanged where k is odd."""
    shape, axes = list(ctx.input("x").shape), ctx.attr("axes")
    ctx.require(len(axes) == 2, f"axes must be 2 axes, got {list(axes)}")
    ctx.require(len(shape) >= 2, f"x must have at least 2 dimensions, got {len(shape)}")
    first, second = normalize_axes(ctx, axes, len(shape))
    if ctx.attr("k") % 2:
        shape[first], shape[second] = shape[second], shape[first]
    ctx.set_output("out", shape)


def _rot90_body(b: BodyContext) -> None:
    rank = len(known_meta(b).shape)
    first, second = (axis % rank for axis in b.attr("axes"))
    k, x, out = b.attr("k") % 4, {"x": b.input("x")}, {"out": b.output("out")}
    if k % 2 == 0:
        b.emit(*(("flip", x, out, {"axis": [first, second]}) if k else ("assign", x, out)))
        return
    order = list(range(rank))
    order[first], order[second] = second, first
    if k == 1:
        turned = b.emit("flip", x, attrs={"axis": [second]})
        b.emit("transpose", {"x": turned}, out, {"axes": order})
    else:
        turned = b.emit("transpose", x, attrs={"axes": order})
        b.emit("flip", {"x": turned}, out, {"axis": [second]})


ROT90 = (
    OpMaker("rot90")
    .add_comment("x turned k times by 90 degrees from one axis towards another, as numpy.rot90.")
    .add_input("x", "at least 2-d, any dtype")
    .add_output("out", "x, for odd k with the axes exchanged; dtype of x")
    .same_dtype_as("x")
    .add_attr("k", int, "how many times, below 0 the other way")
    .default(1)
    .at_least(-INT_MAX)
    .add_attr("axes", list[int], "the two axes of the plane")
    .default([0, 1])
    .build(infer_shape=_rot90_shape, body=_rot90_body)
)
