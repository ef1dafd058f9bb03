"""Select slices of a tensor along one axis by index."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    format_shape,
    grad_op,
    linear_in,
    normalize_axis,
)
from opwright_std.numerics.add_slices import add_slices
from opwright_std.numerics.dtypes import INDICES, Array
from opwright_std.numerics.scatter import check_positions


def gather(x: Array, index: Array, out: Array, *, axis: int) -> None:
    x = np.atleast_1d(x)
    found = check_positions("gather: index", index, x.shape[axis])
    # mode="clip" writes into out without a copy; after the check nothing is clipped.
    np.take(x, found, axis=axis, out=out, mode="clip")


def gather_grad(index: Array, out_grad: Array, x_grad: Array, *, axis: int) -> None:
    x_grad = np.atleast_1d(x_grad)  # a view, as reshape
    axis %= x_grad.ndim
    found = check_positions("gather: index", index, x_grad.shape[axis])
    add_slices(out_grad, found, x_grad, axis)


def _gather_shape(ctx: InferContext) -> None:
    """The output has the shape of x, with the axis replaced by the shape of index."""
    shape = ctx.input("x").shape
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape), scalar=True)
    ctx.set_output("out", (*shape[:axis], *ctx.input("index").shape, *shape[axis + 1 :]))


GATHER = (
    OpMaker("gather")
    .add_comment(
        "Slices of x along one axis, out[..., i, ...] = x[..., index[i], ...] as numpy.take; a "
        "negative index counts from the end. The gradient accumulates over repeated indices."
    )
    .add_input("x", "any shape; a scalar is one element along axis 0")
    .add_input("index", "int32 or int64 of any shape, in [-n, n)")
    .dtypes(*INDICES)
    .add_output("out", "shape of x with axis replaced by the shape of index; dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis of the slices")
    .default(0)
    .build(
        infer_shape=_gather_shape,
        gradient=grad_op("gather_grad", needs=["index"], gradient=linear_in("x")),
    )
)


def _index_select_shape(ctx: InferContext) -> None:
    """The output has the shape of x, with the length of index along the axis."""
    index = ctx.input("index").shape
    ctx.require(len(index) == 1, f"index must have 1 axis, got {format_shape(index)}")
    _gather_shape(ctx)


def _index_select_body(b: BodyContext) -> None:
    inputs = {"x": b.input("x"), "index": b.input("index")}
    b.emit("gather", inputs, {"out": b.output("out")}, {"axis": b.attr("axis")})


def _index_select_gradient(g: GradientContext) -> None:
    slots = {"x": g.input("x"), "index": g.input("index"), "out_grad": g.output_grad("out")}
    attrs = {"axis": g.attr("axis")}
    g.set_input_grad("x", g.emit("gather_grad", slots, {"x_grad": 1}, attrs))


INDEX_SELECT = (
    OpMaker("index_select")
    .add_comment(
        "Slices of x along one axis, out[..., i, ...] = x[..., index[i], ...]: gather with a "
        "vector of indices."
    )
    .add_input("x", "at least 1-d, any dtype")
    .add_input("index", "int32 or int64 [n], in [-length, length)")
    .dtypes(*INDICES)
    .add_output("out", "shape of x with n along axis; dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis of the slices")
    .default(0)
    .build(
        infer_shape=_index_select_shape,
        gradient=_index_select_gradient,
        body=_index_select_body,
    )
)
