"""gather_nd and scatter_nd: slices read and written at index vectors."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, Shape, format_shape, grad_op, linear_in
from opwright_std.compositions.selections import scatter_again
from opwright_std.numerics.add_slices import add_slices
from opwright_std.numerics.dtypes import INDICES, Array
from opwright_std.numerics.scatter import (
    REDUCTIONS,
    row_numbers,
    row_places,
    scatter_gradients,
    scatter_into,
)


def gather_nd(x: Array, index: Array, out: Array) -> None:
    rows = row_numbers("gather_nd: index", index, x.shape)
    k = index.shape[-1]
    whole = x.reshape((-1 if x.size else _count(x.shape, k), *x.shape[k:]))
    np.take(whole, rows, axis=0, out=out.reshape((rows.size, *x.shape[k:])), mode="clip")


def gather_nd_grad(index: Array, out_grad: Array, x_grad: Array) -> None:
    rows = row_numbers("gather_nd: index", index, x_grad.shape)
    count = _count(x_grad.shape, index.shape[-1])
    add_slices(out_grad, rows, x_grad.reshape((count, *x_grad.shape[index.shape[-1] :])))


def _count(shape: Shape, k: int) -> int:
    return int(np.prod(shape[:k], dtype=np.int64))


def _places(index: Array, shape: Shape) -> Array:
    rows = row_numbers("scatter_nd: index", index, shape)
    return row_places(rows, int(np.prod(shape[index.shape[-1] :], dtype=np.int64)))


def scatter_nd(x: Array, index: Array, updates: Array, out: Array, *, reduction: str) -> None:
    places = _places(index, x.shape)
    np.copyto(out, x)
    scatter_into(out.reshape(-1), places, updates.reshape(-1), reduction)


def scatter_nd_grad(
    x: Array,
    index: Array,
    updates: Array,
    out: Array,
    out_grad: Array,
    x_grad: Array | None,
    updates_grad: Array | None,
    *,
    reduction: str,
) -> None:
    scatter_gradients(
        x.reshape(-1),
        _places(index, x.shape),
        updates.reshape(-1),
        out.reshape(-1),
        out_grad.reshape(-1),
        None if x_grad is None else x_grad.reshape(-1),
        None if updates_grad is None else updates_grad.reshape(-1),
        reduction,
    )


def _slices_shape(ctx: InferContext) -> Shape:
    """Return the shape of the selected slices."""
    x, index = ctx.input("x").shape, ctx.input("index").shape
    if index and index[-1] == -1:
        ctx.fail(f"index must have a known last length, got unknown in {format_shape(index)}")
    # The size may be symbolic, so it is compared with each possible number.
    named = next((n for n in range(1, len(x) + 1) if index and index[-1] == n), 0)
    if not named:
        ctx.fail(
            f"index must have 1 to {len(x)} indices in its last axis, one for each of the first "
            f"axes of x {format_shape(x)}, got {format_shape(index)}"
        )
    return (*index[:-1], *x[named:])


def _gather_nd_shape(ctx: InferContext) -> None:
    """The output has the axes of index without the last, then the remaining axes of x."""
    ctx.set_output("out", _slices_shape(ctx))


def _scatter_nd_shape(ctx: InferContext) -> None:
    """The output has the shape of x; updates has the shape of gather_nd's output."""
    ctx.require_shape("updates", _slices_shape(ctx))
    ctx.set_output("out", ctx.input("x").shape)


GATHER_ND = (
    OpMaker("gather_nd")
    .add_comment(
        "Slices of x at positions along its first k axes, out[...] = x[index[..., 0], ..., "
        "index[..., k - 1]]; a negative index counts from the end. As ONNX's GatherND. The "
        "gradient accumulates over repeated indices."
    )
    .add_input("x", "at least 1-d, any dtype")
    .add_input("index", "int32 or int64 [..., k], positions in [-n, n) along each axis")
    .dtypes(*INDICES)
    .add_output("out", "shape of index without its last axis, then the shape of x from axis k")
    .same_dtype_as("x")
    .build(
        infer_shape=_gather_nd_shape,
        gradient=grad_op("gather_nd_grad", needs=["index"], gradient=linear_in("x")),
    )
)


def add_reduction(maker: OpMaker) -> OpMaker:
    """Add the reduction attribute."""
    return (
        maker.add_attr("reduction", str, "how an update is combined with the element at its index")
        .default("none")
        .one_of(*REDUCTIONS)
    )


SCATTER_ND = add_reduction(
    OpMaker("scatter_nd")
    .add_comment(
        "A copy of x with slices set at positions along its first k axes, out[index[..., 0], ..., "
        "index[..., k - 1]] = updates[...], or combined by reduction. Repeated indices apply in "
        "order: without reduction the last update wins. For bool a sum is or, and a product is "
        "and. As ONNX's ScatterND."
    )
    .add_input("x", "at least 1-d, any dtype")
    .add_input("index", "int32 or int64 [..., k], positions in [-n, n) along each axis")
    .dtypes(*INDICES)
    .add_input("updates", "shape of index without its last axis, then the shape of x from axis k")
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
).build(
    infer_shape=_scatter_nd_shape,
    gradient=grad_op(
        "scatter_nd_grad", needs=["x", "index", "updates", "out"], gradient=scatter_again
    ),
)
