"""slice and slice_scatter: a box with steps cut out of a tensor, or set in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright.op import GradientContext, InferContext, OpMaker, grad_op, linear_in, normalize_axes
from opwright_std.numerics.dtypes import Array

Ints = tuple[int, ...]


def slice_(x: Array, out: Array, *, axes: Ints, starts: Ints, ends: Ints, steps: Ints) -> None:
    np.copyto(out, x[_index(x.ndim, axes, starts, ends, steps)])


def slice_grad(
    out_grad: Array, x_grad: Array, *, axes: Ints, starts: Ints, ends: Ints, steps: Ints
) -> None:
    x_grad.fill(0)
    x_grad[_index(x_grad.ndim, axes, starts, ends, steps)] = out_grad


def slice_scatter(
    x: Array, updates: Array, out: Array, *, axes: Ints, starts: Ints, ends: Ints, steps: Ints
) -> None:
    np.copyto(out, x)
    out[_index(x.ndim, axes, starts, ends, steps)] = updates


def _index(rank: int, axes: Ints, starts: Ints, ends: Ints, steps: Ints) -> tuple[Any, ...]:
    index = [slice(None)] * rank
    for i, axis in enumerate(axes):
        index[axis] = slice(starts[i], ends[i], steps[i] if steps else 1)
    return (*index, ...)  # with the ellipsis a 0-d array gives a view and not a scalar


def _slice_shape(ctx: InferContext) -> None:
    """Each axis of out is as long as what the slice leaves of that of x, as in Python."""
    ctx.set_output("out", _box(ctx))


def _box(ctx: InferContext) -> list[int | None]:
    """Return the shape of what is cut out of x."""
    shape, axes, steps = ctx.input("x").shape, ctx.attr("axes"), ctx.attr("steps")
    starts, ends = ctx.attr("starts"), ctx.attr("ends")
    if not len(axes) == len(starts) == len(ends) or (steps and len(steps) != len(axes)):
        lists = f"axes={list(axes)}, starts={list(starts)}, ends={list(ends)}, steps={list(steps)}"
        ctx.fail(f"axes, starts, ends and steps must have one length, got {lists}")
    ctx.require(0 not in steps, f"steps must not be 0, got {list(steps)}")
    out: list[int | None] = list(shape)
    for i, axis in enumerate(normalize_axes(ctx, axes, len(shape), "axes") if axes else ()):
        if shape[axis] != -1:
            out[axis] = _length(shape[axis], starts[i], ends[i], steps[i] if steps else 1)
    return out


def _length(dim: int, start: int | None, end: int | None, step: int | None) -> int | None:
    """Return how many elements a slice leaves of an axis; None where a bound is not known yet."""
    if start is None or end is None or step is None:
        return None
    first, last = (0, dim) if step > 0 else (-1, dim - 1)
    begin, stop = (
        max(bound + dim, first) if bound < 0 else min(bound, last) for bound in (start, end)
    )
    return max((stop - begin + step - (1 if step > 0 else -1)) // step, 0)


def _with_box(maker: OpMaker) -> OpMaker:
    return (
        maker.add_attr("axes", list[int], "the axes to cut")
        .required()
        .add_attr("starts", list[int], "first position on each of these axes")
        .as_shape_operand()
        .required()
        .add_attr("ends", list[int], "position behind the last")
        .as_shape_operand()
        .required()
        .add_attr("steps", list[int], "distance between positions, not 0; none given: all 1")
        .as_shape_operand()
        .default([])
    )


SLICE = _with_box(
    OpMaker("slice")
    .add_comment(
        "Cut out elements from starts (included) to ends (excluded) along some axes, as Python's "
        "x[start:end:step]: below 0 they count from the back, beyond the ends they are clipped. "
        "Backwards through element 0 with a negative step and an end below -length."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "what is left of each axis, dtype of x")
    .same_dtype_as("x")
).build(infer_shape=_slice_shape, gradient=grad_op("slice_grad", gradient=linear_in("x")))


def _scatter_shape(ctx: InferContext) -> None:
    """The output has the shape of x; updates that of what the slice leaves of it."""
    ctx.require_shape("updates", [-1 if dim is None else dim for dim in _box(ctx)])
    ctx.set_output("out", ctx.input("x").shape)


def _scatter_gradient(g: GradientContext) -> None:
    attrs = {name: g.attr(name) for name in ("axes", "starts", "ends", "steps")}
    grad = g.output_grad("out")
    if g.wants("updates"):
        g.set_input_grad("updates", g.emit("slice", {"x": grad}, attrs=attrs))
    if g.wants("x"):
        zeros = g.emit("fill_like", {"x": g.input("updates")}, attrs={"value": 0.0})
        inputs = {"x": grad, "updates": zeros}
        g.set_input_grad("x", g.emit("slice_scatter", inputs, attrs=attrs))


SLICE_SCATTER = _with_box(
    OpMaker("slice_scatter")
    .add_comment(
        "A copy of x with a box of it set, out[start:end:step] = updates. In the box lies what "
        "slice cuts out with the same attributes."
    )
    .add_input("x", "any shape, any dtype")
    .add_input("updates", "what slice leaves of each axis of x; dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
).build(infer_shape=_scatter_shape, gradient=_scatter_gradient)
