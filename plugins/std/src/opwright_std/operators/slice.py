"""slice: a box with steps cut out of a tensor, as by Python's own slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, normalize_axes
from opwright_std.numerics.dtypes import Array

Ints = tuple[int, ...]


def slice_(x: Array, out: Array, *, axes: Ints, starts: Ints, ends: Ints, steps: Ints) -> None:
    np.copyto(out, x[_index(x.ndim, axes, starts, ends, steps)])


def slice_grad(
    out_grad: Array, x_grad: Array, *, axes: Ints, starts: Ints, ends: Ints, steps: Ints
) -> None:
    x_grad.fill(0)
    x_grad[_index(x_grad.ndim, axes, starts, ends, steps)] = out_grad


def _index(rank: int, axes: Ints, starts: Ints, ends: Ints, steps: Ints) -> tuple[Any, ...]:
    index = [slice(None)] * rank
    for i, axis in enumerate(axes):
        index[axis] = slice(starts[i], ends[i], steps[i] if steps else 1)
    return (*index, ...)  # with the ellipsis a 0-d array gives a view and not a scalar


def _slice_shape(ctx: InferContext) -> None:
    """Each axis of out is as long as what the slice leaves of that of x, as in Python."""
    shape, axes, steps = ctx.input("x").shape, ctx.attr("axes"), ctx.attr("steps")
    starts, ends = ctx.attr("starts"), ctx.attr("ends")
    if not len(axes) == len(starts) == len(ends) or (steps and len(steps) != len(axes)):
        lists = f"axes={list(axes)}, starts={list(starts)}, ends={list(ends)}, steps={list(steps)}"
        ctx.fail(f"axes, starts, ends and steps must have one length, got {lists}")
    ctx.require(0 not in steps, f"steps must not be 0, got {list(steps)}")
    out = list(shape)
    for i, axis in enumerate(normalize_axes(ctx, axes, len(shape), "axes") if axes else ()):
        if out[axis] != -1:
            step = steps[i] if steps else 1
            out[axis] = len(range(*slice(starts[i], ends[i], step).indices(out[axis])))
    ctx.set_output("out", out)


SLICE = (
    OpMaker("slice")
    .add_comment(
        "Cut out elements from starts (included) to ends (excluded) along some axes, as Python's "
        "x[start:end:step]: below 0 they count from the back, beyond the ends they are clipped. "
        "Backwards through element 0 with a negative step and an end below -length."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "what is left of each axis, dtype of x")
    .same_dtype_as("x")
    .add_attr("axes", list[int], "the axes to cut")
    .required()
    .add_attr("starts", list[int], "first position on each of these axes")
    .required()
    .add_attr("ends", list[int], "position behind the last")
    .required()
    .add_attr("steps", list[int], "distance between positions, not 0; none given: all 1")
    .default([])
    .build(infer_shape=_slice_shape, gradient=grad_op("slice_grad"))
)
