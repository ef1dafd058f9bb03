"""flip, roll and rot90: permutations of elements along axes."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    INT_MAX,
    BodyContext,
    InferContext,
    OpMaker,
    normalize_axes,
)
from opwright_std.compositions.chain_rules import chain_rule
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
    """Return shifts modulo the lengths: numpy.roll overflows beyond 32 bits."""
    return tuple(by % n if n else 0 for by, n in zip(shift, lengths, strict=True))


def _flip_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    shape, axis = ctx.input("x").shape, ctx.attr("axis")
    if axis:
        normalize_axes(ctx, axis, len(shape), scalar=True)
    ctx.set_output("out", shape)


FLIP = (
    OpMaker("flip")
    .add_comment("The elements of x in reverse order along some axes, as numpy.flip.")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", list[int], "the reversed axes; none given: all")
    .default([])
    .build(
        infer_shape=_flip_shape,
        gradient=chain_rule(lambda grad, g: grad.then("flip", axis=g.attr("axis"))),
    )
)


def _roll_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    shape, shift, axis = ctx.input("x").shape, ctx.attr("shift"), ctx.attr("axis")
    if len(shift) != (len(axis) or 1):
        ctx.fail(
            f"shift must have one number per axis, or one number without axes, got "
            f"shift={list(shift)}, axis={list(axis)}"
        )
    if axis:
        normalize_axes(ctx, axis, len(shape), scalar=True)
    ctx.set_output("out", shape)


ROLL = (
    OpMaker("roll")
    .add_comment(
        "Shifts elements along axes cyclically, as numpy.roll. Without axes the elements shift in "
        "row-major order."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("shift", list[int], "number of positions; negative shifts towards the front")
    .required()
    .at_least(-INT_MAX)
    .add_attr("axis", list[int], "the axis of each shift; none given: all elements as one axis")
    .default([])
    .build(
        infer_shape=_roll_shape,
        gradient=chain_rule(
            lambda grad, g: grad.then(
                "roll", shift=[-by for by in g.attr("shift")], axis=g.attr("axis")
            )
        ),
    )
)


def _rot90_shape(ctx: InferContext) -> None:
    """The output has the shape of x, with the two axes swapped for odd k."""
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
    .add_comment("x rotated k times by 90 degrees from one axis towards another, as numpy.rot90.")
    .add_input("x", "at least 2-d, any dtype")
    .add_output("out", "shape of x, with the axes swapped for odd k; dtype of x")
    .same_dtype_as("x")
    .add_attr("k", int, "number of rotations; negative reverses the direction")
    .default(1)
    .at_least(-INT_MAX)
    .add_attr("axes", list[int], "the two axes of the plane")
    .default([0, 1])
    .build(infer_shape=_rot90_shape, body=_rot90_body)
)
