"""slice and slice_scatter: read or set a strided slice of a tensor."""

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
    return (*index, ...)  # with the ellipsis a 0-d array yields a view, not a scalar


def _slice_shape(ctx: InferContext) -> None:
    """Each axis of out has the length of the corresponding Python slice of x."""
    ctx.set_output("out", _box(ctx))


def _box(ctx: InferContext) -> list[int | None]:
    """Return the shape of the slice of x."""
    shape, axes, steps = ctx.input("x").shape, ctx.attr("axes"), ctx.attr("steps")
    starts, ends = ctx.attr("starts"), ctx.attr("ends")
    if not len(axes) == len(starts) == len(ends) or (steps and len(steps) != len(axes)):
        lists = f"axes={list(axes)}, starts={list(starts)}, ends={list(ends)}, steps={list(steps)}"
        ctx.fail(f"axes, starts, ends and steps must have the same length, got {lists}")
    ctx.require(0 not in steps, f"steps must not be 0, got {list(steps)}")
    out: list[int | None] = list(shape)
    for i, axis in enumerate(normalize_axes(ctx, axes, len(shape), "axes") if axes else ()):
        if shape[axis] != -1:
            out[axis] = _length(shape[axis], starts[i], ends[i], steps[i] if steps else 1)
    return out


def _length(dim: int, start: int | None, end: int | None, step: int | None) -> int | None:
    """Return the length of a sliced axis, or None if a bound is not known yet."""
    if start is None or end is None or step is None:
        return None
    first, last = (0, dim) if step > 0 else (-1, dim - 1)
    begin, stop = (
        max(bound + dim, first) if bound < 0 else min(bound, last) for bound in (start, end)
    )
    return max((stop - begin + step - (1 if step > 0 else -1)) // step, 0)


def _with_box(maker: OpMaker) -> OpMaker:
    return (
        maker.add_attr("axes", list[int], "the axes to slice")
        .required()
        .add_attr("starts", list[int], "first index on each of these axes")
        .as_shape_operand()
        .required()
        .add_attr("ends", list[int], "index after the last element")
        .as_shape_operand()
        .required()
        .add_attr("steps", list[int], "distance between indices, not 0; none given: all 1")
        .as_shape_operand()
        .default([])
    )


SLICE = _with_box(
    OpMaker("slice")
    .add_comment(
        "Takes the elements from starts (included) to ends (excluded) along some axes, as "
        "Python's x[start:end:step]: negative indices count from the end, indices out of range "
        "are clamped. A negative step with an end below -length goes backward through element 0."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape of the slice, dtype of x")
    .same_dtype_as("x")
).build(infer_shape=_slice_shape, gradient=grad_op("slice_grad", gradient=linear_in("x")))


def _scatter_shape(ctx: InferContext) -> None:
    """The output has the shape of x, updates the shape of the slice."""
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
        "A copy of x with a slice set, out[start:end:step] = updates, for the attributes of slice."
    )
    .add_input("x", "any shape, any dtype")
    .add_input("updates", "shape of the slice of x; dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
).build(infer_shape=_scatter_shape, gradient=_scatter_gradient)
