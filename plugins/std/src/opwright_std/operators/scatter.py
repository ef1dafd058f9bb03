"""take_along_axis and scatter: elements read and written at indices along one axis."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    InferContext,
    OpMaker,
    broadcast_shapes,
    format_shape,
    grad_op,
    linear_in,
    normalize_axis,
)
from opwright_std.compositions.selections import scatter_again
from opwright_std.numerics.dtypes import INDICES, Array
from opwright_std.numerics.scatter import (
    check_positions,
    line_places,
    scatter_gradients,
    scatter_into,
)
from opwright_std.operators.gather_nd import add_reduction


def take_along_axis(x: Array, index: Array, out: Array, *, axis: int) -> None:
    x, index, out = np.atleast_1d(x, index, out)
    found = check_positions("take_along_axis: index", index, x.shape[axis])
    np.copyto(out, np.take_along_axis(x, found, axis))


def take_along_axis_grad(index: Array, out_grad: Array, x_grad: Array, *, axis: int) -> None:
    index, out_grad, x_grad = np.atleast_1d(index, out_grad, x_grad)
    axis %= x_grad.ndim
    found = check_positions("take_along_axis: index", index, x_grad.shape[axis])
    places = line_places(np.broadcast_to(found, out_grad.shape), x_grad.shape, axis)
    x_grad[...] = 0
    scatter_into(x_grad.reshape(-1), places, out_grad.reshape(-1), "add")


def _places(index: Array, shape: tuple[int, ...], axis: int) -> Array:
    index, shape = np.atleast_1d(index), shape or (1,)
    found = check_positions("scatter: index", index, shape[axis])
    return line_places(found, shape, axis % len(shape))


def scatter(
    x: Array, index: Array, updates: Array, out: Array, *, axis: int, reduction: str
) -> None:
    places = _places(index, x.shape, axis)
    np.copyto(out, x)
    scatter_into(out.reshape(-1), places, updates.reshape(-1), reduction)


def scatter_grad(
    x: Array,
    index: Array,
    updates: Array,
    out: Array,
    out_grad: Array,
    x_grad: Array | None,
    updates_grad: Array | None,
    *,
    axis: int,
    reduction: str,
) -> None:
    scatter_gradients(
        x.reshape(-1),
        _places(index, x.shape, axis),
        updates.reshape(-1),
        out.reshape(-1),
        out_grad.reshape(-1),
        None if x_grad is None else x_grad.reshape(-1),
        None if updates_grad is None else updates_grad.reshape(-1),
        reduction,
    )


def _axis_of_both(ctx: InferContext) -> int:
    x, index = ctx.input("x").shape, ctx.input("index").shape
    if len(x) != len(index):
        ctx.fail(f"index must have the {len(x)} axes of x, got {format_shape(index)}")
    return normalize_axis(ctx, ctx.attr("axis"), len(x), scalar=True)


def _take_shape(ctx: InferContext) -> None:
    """The output has the length of index along the axis; the other axes broadcast."""
    axis = _axis_of_both(ctx)
    x, index = ctx.input("x").shape, ctx.input("index").shape
    taken = (*x[:axis], index[axis], *x[axis + 1 :]) if x else x
    ctx.set_output("out", broadcast_shapes(taken, index, ctx))


TAKE_ALONG_AXIS = (
    OpMaker("take_along_axis")
    .add_comment(
        "Elements of x at indices along one axis, out[..., i, ...] = x[..., index[..., i, ...], "
        "...] as numpy.take_along_axis; a negative index counts from the end. The other axes "
        "broadcast. The gradient accumulates over repeated indices."
    )
    .add_input("x", "any shape and dtype; a scalar is one element along axis 0")
    .add_input("index", "int32 or int64, as many axes as x, in [-n, n)")
    .dtypes(*INDICES)
    .add_output("out", "length of index along axis, else the broadcast shape; dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis of the indices")
    .default(-1)
    .build(
        infer_shape=_take_shape,
        gradient=grad_op("take_along_axis_grad", needs=["index"], gradient=linear_in("x")),
    )
)


def scatter_shape(ctx: InferContext) -> None:
    """The output is like x; index and updates have one shape, longer than x only along axis."""
    axis = _axis_of_both(ctx)
    x, index = ctx.input("x").shape, ctx.input("index").shape
    ctx.require_shape("updates", index)
    for d, (most, length) in enumerate(zip(x, index, strict=True)):
        if d != axis and length > most != -1:
            ctx.fail(
                f"index must not be longer than x except along axis {axis}, got "
                f"{format_shape(index)} and {format_shape(x)}"
            )
    ctx.set_output("out", x)


SCATTER = add_reduction(
    OpMaker("scatter")
    .add_comment(
        "A copy of x with elements set at indices along one axis, out[..., index[..., i, ...], "
        "...] = updates[..., i, ...], or combined by reduction. Repeated indices apply in "
        "row-major order: without reduction the last update wins. For bool a sum is or, and a "
        "product is and. As ONNX's ScatterElements, and as torch.scatter_reduce, which calls them "
        "sum, prod, amax and amin."
    )
    .add_input("x", "at least 1-d, any dtype")
    .add_input("index", "int32 or int64 in [-n, n); axes as x, not longer except along axis")
    .dtypes(*INDICES)
    .add_input("updates", "shape of index, dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis of the indices")
    .default(0)
).build(
    infer_shape=scatter_shape,
    gradient=grad_op(
        "scatter_grad", needs=["x", "index", "updates", "out"], gradient=scatter_again
    ),
)
