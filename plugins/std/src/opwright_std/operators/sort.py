"""Sorting along one axis, and the distinct elements of a tensor."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import (
    BodyContext,
    InferContext,
    Meta,
    OpMaker,
    grad_op,
    no_gradient,
    normalize_axis,
)
from opwright_std.compositions.selections import pick_along_axis
from opwright_std.numerics.dtypes import NUMBERS, Array
from opwright_std.operators.nonzero import Resizable
from opwright_std.operators.softmax import along_axis_shape
from opwright_std.operators.top_k import ranked, top_k_grad

sort_grad = top_k_grad

_ORDER = (
    "Equal elements keep their order, and NaN counts as greater than every number, as in "
    "numpy.sort with kind stable."
)


def sort(x: Array, out: Array, indices: Array, *, axis: int, descending: bool) -> None:
    argsort(x, indices, axis=axis, descending=descending)
    if x.ndim == 0:
        np.copyto(out, x)
    else:
        np.copyto(out, np.take_along_axis(x, indices, axis))


def argsort(x: Array, out: Array, *, axis: int, descending: bool) -> None:
    if x.ndim == 0:
        out.fill(0)
    else:
        np.copyto(out, ranked(x, axis, descending))


def unique(
    x: Array,
    out: Resizable,
    index: Resizable | None,
    inverse: Array | None,
    counts: Resizable | None,
    *,
    axis: int | None,
) -> None:
    if axis is None:
        values, first, places, numbers = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True
        )
        places = places.reshape(x.shape)
    else:
        first, places, numbers = _different_slices(np.moveaxis(x, axis, 0))
        values = x.take(first, axis)
    for output, array in ((out, values), (index, first), (counts, numbers)):
        if output is not None:
            np.copyto(output.resize(array.shape), array)
    if inverse is not None:
        np.copyto(inverse, places)


def _different_slices(slices: Array) -> tuple[Array, Array, Array]:
    """Return the first index of each distinct slice, the inverse, and the counts.

    Slices are sorted lexicographically; NaN equals NaN.
    """
    rows = slices.reshape(len(slices), math.prod(slices.shape[1:]))
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))  # stable
    ordered = rows[order]
    is_nan = ordered != ordered
    same = (ordered[1:] == ordered[:-1]) | (is_nan[1:] & is_nan[:-1])
    is_new = np.concatenate([np.ones(min(len(rows), 1), bool), ~same.all(axis=1)])
    places = np.empty(len(rows), np.int64)
    places[order] = np.cumsum(is_new) - 1
    begins = np.flatnonzero(is_new)
    return order[begins], places, np.diff(begins, append=len(rows))


def shape_with_indices(ctx: InferContext) -> None:
    """Both outputs have the shape of x."""
    along_axis_shape(ctx)
    ctx.set_output("indices", ctx.input("x").shape)


def _body(b: BodyContext) -> None:
    """Compose the operator from top_k of all elements of the axis, without a sorting kernel."""
    x, is_sort = b.input("x") or "", b.type == "sort"
    shape = (b.meta(x) or Meta((), "")).shape
    axis = b.attr("axis")
    outs = {"out": b.output("out") if is_sort else 1}
    indices = b.output("indices" if is_sort else "out")
    if 0 in shape:
        if is_sort:
            b.emit("assign", {"x": x}, outs)
        b.emit("cast", {"x": x}, {"out": indices}, {"dtype": "int64"})
        return
    attrs = {"k": shape[axis] if shape else 1, "axis": axis, "largest": b.attr("descending")}
    b.emit("top_k", {"x": x}, {**outs, "indices": indices}, attrs)


def _sorting(op_type: str, comment: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(f"{comment} {_ORDER}")
        .add_input("x", "any shape; a scalar is one element along axis 0")
        .dtypes(*NUMBERS, "bool")
        .add_attr("axis", int, "the sorted axis")
        .default(-1)
        .add_attr("descending", bool, "whether the largest comes first")
        .default(False)
    )


SORT = (
    _sorting("sort", "The elements along an axis in ascending order.")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_output("indices", "index of each element along axis in x, int64, shape of x")
    .dtypes("int64")
    .as_intermediate()
    .build(
        infer_shape=shape_with_indices,
        gradient=grad_op("sort_grad", needs=["indices"], gradient=pick_along_axis),
        body=_body,
    )
)

ARGSORT = (
    _sorting("argsort", "Indices that sort the elements along an axis.")
    .add_output("out", "int64, shape of x")
    .dtypes("int64")
    .build(infer_shape=along_axis_shape, gradient=no_gradient("its result is indices"), body=_body)
)


def _unique_shape(ctx: InferContext) -> None:
    """The output has one element per distinct element of x, inverse one per element of x."""
    shape, axis = ctx.input("x").shape, ctx.attr("axis")
    out, inverse = list(shape), shape
    if axis is None:
        out = [-1]
    else:
        axis = normalize_axis(ctx, axis, len(shape))
        out[axis], inverse = -1, (shape[axis],)
    ctx.set_output("out", out)
    for slot in ("index", "counts"):
        ctx.set_output(slot, (-1,))
    ctx.set_output("inverse", inverse)


UNIQUE = (
    OpMaker("unique")
    .add_comment(
        "The distinct elements of a tensor in ascending order, as numpy.unique: x is "
        "out[inverse], and all NaN are one element, the last. With an axis, the distinct slices "
        "along it, sorted lexicographically."
    )
    .add_input("x", "any shape")
    .dtypes(*NUMBERS, "bool")
    .add_output("out", "[n], or x with n slices; dtype of x; n is known after the kernel ran")
    .same_dtype_as("x")
    .add_output("index", "int64 [n], where each first occurs in x, flattened or along axis")
    .dtypes("int64")
    .as_optional()
    .add_output("inverse", "int64, shape of x or its length: index of each element or slice in out")
    .dtypes("int64")
    .as_optional()
    .add_output("counts", "int64 [n], number of occurrences in x")
    .dtypes("int64")
    .as_optional()
    .add_attr("axis", int, "the axis of compared slices; absent: elements are compared")
    .as_added()
    .dynamic_output()
    .build(infer_shape=_unique_shape, gradient=no_gradient("it is not continuous"))
)
