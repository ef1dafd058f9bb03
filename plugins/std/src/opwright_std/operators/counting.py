"""searchsorted, bucketize, bincount and histogram: sorted positions, and counts."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    format_shape,
    merge_dims,
    no_gradient,
    shapes_match,
)
from opwright_std.numerics.class_ids import flat_ids
from opwright_std.numerics.dtypes import FLOATS, INDICES, NUMBERS, Array


def searchsorted(
    x: Array,
    values: Array,
    out: Array,
    *,
    side: Literal["left", "right"],
    rows: bool,
    dtype: str,
) -> None:
    del dtype  # the dtype of out
    for row in np.ndindex(x.shape[:-1] if rows else ()):
        out[row] = np.searchsorted(x[row], values[row], side)


def bincount(x: Array, weights: Array | None, out: Array, *, length: int) -> None:
    ids = flat_ids("bincount: x", x, length)
    parts = None if weights is None else weights.astype(np.float64)
    # If x is empty, NumPy returns integers even with weights; all are zeros.
    out[...] = np.bincount(ids, parts, length)


def histogram(x: Array, out: Array, *, bins: int, min: float, max: float) -> None:
    counts, _ = np.histogram(x.astype(np.float64), bins, (min, max))
    np.copyto(out, counts)


def _searchsorted_shape(ctx: InferContext) -> None:
    """The output has the shape of values."""
    shape, wanted = ctx.input("x").shape, ctx.input("values").shape
    if not ctx.attr("rows"):
        if len(shape) != 1:
            ctx.fail(f"x must be [n], got {format_shape(shape)}; with rows=True it may have rows")
        ctx.set_output("out", wanted)
        return
    if len(shape) < 1 or len(wanted) != len(shape) or not shapes_match(shape[:-1], wanted[:-1]):
        ctx.fail(
            "values must have the shape of x except for the last axis with rows=True, got "
            f"{format_shape(wanted)} for x {format_shape(shape)}"
        )
    ctx.set_output("out", (*map(merge_dims, shape[:-1], wanted[:-1]), wanted[-1]))


SEARCHSORTED = (
    OpMaker("searchsorted")
    .add_comment(
        "Insertion positions of values in x, which is sorted in ascending order, as "
        "numpy.searchsorted: the number of elements of x less than a value, or not greater with "
        "side right. NaN is greater than every number. The result for an unsorted x is "
        "unspecified. With rows each row of values is searched in a row of x, as "
        "torch.searchsorted."
    )
    .add_input("x", "[n] in ascending order; with rows [..., n]")
    .dtypes(*NUMBERS)
    .add_input("values", "any shape; with rows [..., m], with the rows of x; dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape of values, from 0 to n")
    .same_dtype_as("dtype")
    .add_attr("side", str, "whether a value is inserted before equal elements, or after them")
    .default("left")
    .one_of("left", "right")
    .add_attr("rows", bool, "whether x and values have the same axes before the last one")
    .default(False)
    .as_added()
    .add_attr("dtype", str, "dtype of out")
    .default("int64")
    .as_dtype(*INDICES)
    .as_added()
    .build(infer_shape=_searchsorted_shape, gradient=no_gradient("its result is indices"))
)


def _bucketize_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    edges = ctx.input("boundaries").shape
    ctx.require(len(edges) == 1, f"boundaries must be [n], got {format_shape(edges)}")
    ctx.set_output("out", ctx.input("x").shape)


def _bucketize_body(b: BodyContext) -> None:
    inputs = {"x": b.input("boundaries"), "values": b.input("x")}
    attrs = {name: b.attr(name) for name in ("side", "dtype")}
    b.emit("searchsorted", inputs, {"out": b.output("out")}, attrs)


BUCKETIZE = (
    OpMaker("bucketize")
    .add_comment(
        "The bucket of each element of x: the number of boundaries less than it, or not greater "
        "with side right. It is searchsorted with its inputs swapped."
    )
    .add_input("x", "any shape")
    .dtypes(*NUMBERS)
    .add_input("boundaries", "[n] in ascending order; dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape of x, from 0 to n")
    .same_dtype_as("dtype")
    .add_attr("side", str, "whether a boundary belongs to the bucket before it (left) or after it")
    .default("left")
    .one_of("left", "right")
    .add_attr("dtype", str, "dtype of out")
    .default("int64")
    .as_dtype(*INDICES)
    .build(
        infer_shape=_bucketize_shape,
        gradient=no_gradient("its result is indices"),
        body=_bucketize_body,
    )
)


def _bincount_shape(ctx: InferContext) -> None:
    """The output has one element per id; without weights these are int64 counts."""
    shape = ctx.input("x").shape
    ctx.require(len(shape) == 1, f"x must be [n], got {format_shape(shape)}")
    dtype = "int64"
    if ctx.has_input("weights"):
        ctx.require_shape("weights", shape)
        dtype = ctx.input("weights").dtype
    ctx.set_output("out", (ctx.attr("length"),), dtype)


def _bincount_gradient(g: GradientContext) -> None:
    if g.wants("weights"):
        inputs = {"x": g.output_grad("out"), "index": g.input("x")}
        g.set_input_grad("weights", g.emit("gather", inputs, attrs={"axis": 0}))


BINCOUNT = (
    OpMaker("bincount")
    .add_comment(
        "Occurrences of each id in x, out[i] = sum(x == i), or with weights, out[i] = "
        "sum(weights[x "
        "== i]), as numpy.bincount. The length of out is an attribute, so shapes do not depend on "
        "values; an id beyond it is an error."
    )
    .add_input("x", "int32 or int64 [n], in [0, length)")
    .dtypes(*INDICES)
    .add_input("weights", "float [n]")
    .dtypes(*FLOATS)
    .as_optional()
    .add_output("out", "[length], int64, or the dtype of weights")
    .add_attr("length", int, "number of ids")
    .required()
    .at_least(1)
    .build(infer_shape=_bincount_shape, gradient=_bincount_gradient)
)


def _histogram_shape(ctx: InferContext) -> None:
    """The output has a count for each bin."""
    low, high = ctx.attr("min"), ctx.attr("max")
    ctx.require(
        math.isfinite(low) and math.isfinite(high) and low < high,
        f"min must be less than max, and both finite, got min={low} and max={high}",
    )
    ctx.set_output("out", (ctx.attr("bins"),))


HISTOGRAM = (
    OpMaker("histogram")
    .add_comment(
        "Number of elements of x in each bin of equal width from min to max, as "
        "numpy.histogram: a bin includes its lower edge, and the last bin also its upper "
        "edge. Elements outside and NaN are not counted. Elements and edges are compared in "
        "float64."
    )
    .add_input("x", "any shape")
    .dtypes(*NUMBERS)
    .add_output("out", "int64 [bins]")
    .dtypes("int64")
    .add_attr("bins", int, "number of bins")
    .default(10)
    .at_least(1)
    .add_attr("min", float, "the lower edge of the first bin")
    .required()
    .add_attr("max", float, "the upper edge of the last bin")
    .required()
    .build(infer_shape=_histogram_shape, gradient=no_gradient("its result is counts"))
)
