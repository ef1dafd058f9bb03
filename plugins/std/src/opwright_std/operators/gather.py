"""Pick slices of a tensor along one axis, by their positions."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, normalize_axis
from opwright_std.numerics.add_slices import add_slices
from opwright_std.numerics.dtypes import INDICES, Array


def positions(who: str, index: Array, count: int) -> Array:
    """Return the index as int64, counted from the front.

    Raises
    ------
    ValueError
        Where one is outside [-count, count).
    """
    wrong = (index < -count) | (index >= count)
    if wrong.any():
        raise ValueError(f"{who} must be in [{-count}, {count}), got {index[wrong][0]}")
    return np.where(index < 0, index + np.int64(count), index)


def gather(x: Array, index: Array, out: Array, *, axis: int) -> None:
    found = positions("gather: index", index, x.shape[axis])
    # mode="clip" writes into out without a copy of it; nothing is clipped after the check.
    np.take(x, found, axis=axis, out=out, mode="clip")


def gather_grad(index: Array, out_grad: Array, x_grad: Array, *, axis: int) -> None:
    axis %= x_grad.ndim
    found = positions("gather: index", index, x_grad.shape[axis])
    add_slices(out_grad, found, x_grad, axis)


def _gather_shape(ctx: InferContext) -> None:
    """The output has the shape of x, with that of index in the place of the axis."""
    shape = ctx.input("x").shape
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape))
    ctx.set_output("out", (*shape[:axis], *ctx.input("index").shape, *shape[axis + 1 :]))


GATHER = (
    OpMaker("gather")
    .add_comment(
        "Slices of x along one axis, out[..., i, ...] = x[..., index[i], ...] as numpy.take; a "
        "negative position counts from the end. The gradient adds up what was picked repeatedly."
    )
    .add_input("x", "at least 1-d")
    .add_input("index", "int32 or int64 of any shape, positions in [-n, n)")
    .dtypes(*INDICES)
    .add_output("out", "shape of x with the shape of index in the place of axis; dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis of the slices")
    .default(0)
    .build(infer_shape=_gather_shape, gradient=grad_op("gather_grad", needs=["index"]))
)
