"""The k largest or smallest elements along one axis."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, normalize_axis
from opwright_std.compositions.selections import pick_along_axis
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import NUMBERS, Array


def ranked(x: Array, axis: int, largest: bool) -> Array:
    """Return the indices along `axis`, best first; equal elements keep their order.

    NaN is greater than every number, as in numpy.sort.
    """
    if not largest:
        return np.argsort(x, axis=axis, kind="stable")
    # A stable ascending sort of the reversed array, read backward, is a stable descending sort.
    backwards = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    order: Array = x.shape[axis] - 1 - backwards
    return order


def top_k(
    x: Array, out: Array, indices: Array, *, k: int, axis: int, largest: bool, sorted: bool
) -> None:
    if x.ndim == 0:
        x, out, indices = x.reshape(1), out.reshape(1), indices.reshape(1)
    # The result is always sorted, since any order is allowed if `sorted` is false.
    np.copyto(indices, ranked(x, axis, largest).take(range(k), axis=axis))
    np.copyto(out, np.take_along_axis(x, indices, axis))


def top_k_grad(indices: Array, out_grad: Array, x_grad: Array, *, axis: int, **_: object) -> None:
    if x_grad.ndim == 0:
        x_grad, indices, out_grad = x_grad.reshape(1), indices.reshape(1), out_grad.reshape(1)
    check_ids("top_k_grad: indices", indices, x_grad.shape[axis])
    x_grad[...] = 0
    np.put_along_axis(x_grad, indices, out_grad, axis)


def _top_k_shape(ctx: InferContext) -> None:
    """Both outputs have the shape of x with length k along the axis; a scalar keeps its shape."""
    shape, k = ctx.input("x").shape, ctx.attr("k")
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape), scalar=True)
    length = shape[axis] if shape else 1
    if k > length != -1:
        ctx.fail(f"k must be in [1, {length}], the length of axis {axis}, got k={k}")
    kept = (*shape[:axis], k, *shape[axis + 1 :]) if shape else ()
    ctx.set_output("out", kept)
    ctx.set_output("indices", kept)


TOP_K = (
    OpMaker("top_k")
    .add_comment(
        "The k largest elements along an axis (the smallest ones if largest is false), and their "
        "indices. Equal elements keep their order; NaN is greater than every number, as in "
        "numpy.sort."
    )
    .add_input("x", "any shape; a scalar is one element")
    .dtypes(*NUMBERS, "bool")
    .add_output("out", "shape of x with k along axis; dtype of x")
    .same_dtype_as("x")
    .add_output("indices", "indices along axis, int64, shape of out")
    .dtypes("int64")
    .add_attr("k", int, "how many")
    .required()
    .at_least(1)
    .add_attr("axis", int, "the axis to search")
    .default(-1)
    .add_attr("largest", bool, "whether to take the largest elements, or the smallest")
    .default(True)
    .add_attr("sorted", bool, "whether the best must come first, or any order is allowed")
    .default(True)
    .build(
        infer_shape=_top_k_shape,
        gradient=grad_op("top_k_grad", needs=["indices"], gradient=pick_along_axis),
    )
)
