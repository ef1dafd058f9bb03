"""Reductions over axes: sum, prod, mean, max, min, any, all, and indices: argmax, argmin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    Meta,
    OpDefinition,
    OpMaker,
    grad_op,
    linear_in,
    no_gradient,
    normalize_axes,
    normalize_axis,
    reduced_shape,
)
from opwright_std.compositions.fractions import COMMENT, fraction_dtype, in_fractions
from opwright_std.compositions.selections import pick_in_shares
from opwright_std.numerics.dtypes import FLOATS, ORDERED, WHOLE, Array, accumulated_dtype

Axes = tuple[int, ...]


def add_axes(maker: OpMaker) -> OpMaker:
    """Add the attributes axis and keepdims."""
    maker.add_attr("axis", list[int], "axes to reduce; none given: all").default([])
    maker.add_attr("keepdims", bool, "whether reduced axes are kept with length 1")
    return maker.default(False)


def reduction(op_type: str, comment: str, dtypes: tuple[str, ...]) -> OpMaker:
    """Start the definition of a reduction with the attributes axis and keepdims."""
    maker = OpMaker(op_type).add_comment(comment)
    maker.add_input("x", "any shape").dtypes(*dtypes)
    maker.add_output("out", "shape of x without the reduced axes, or with 1 there; dtype of x")
    return add_axes(maker.same_dtype_as("x"))


def fraction(op_type: str, comment: str) -> OpMaker:
    """Start the definition of a reduction of any dtype with fractional results."""
    maker = OpMaker(op_type).add_comment(f"{comment} {COMMENT}")
    maker.add_input("x", "any shape").dtypes(*FLOATS, *WHOLE)
    maker.add_output(
        "out",
        "shape of x without the reduced axes, or with 1 there; dtype of x if it is a "
        "float, else float32",
    ).dtypes(*FLOATS)
    return add_axes(maker)


def known_meta(w: BodyContext | GradientContext, slot: str = "x") -> Meta:
    """Return shape and dtype of an input that a formula needs; fail if they are unknown."""
    meta = w.meta(w.input(slot) or "")
    if meta is None:
        raise GradientError(
            f"{w.type}: its formula depends on the shape of {slot}, got {w.input(slot)!r} without "
            "one; declare it, with -1 for unknown dimensions"
        )
    return meta


def fraction_of_axes(ctx: InferContext) -> None:
    """The output lacks the reduced axes (default: all axes); keepdims keeps them with length 1."""
    _set_reduced(ctx, fraction_dtype(ctx.input("x").dtype))


def reduced_axes(ctx: InferContext) -> None:
    """The output lacks the reduced axes (default: all axes); keepdims keeps them with length 1."""
    _set_reduced(ctx)


def _set_reduced(ctx: InferContext, dtype: str | None = None) -> None:
    shape = ctx.input("x").shape
    axes = normalize_axes(ctx, ctx.attr("axis"), len(shape), scalar=True)
    ctx.set_output("out", reduced_shape(shape, axes, ctx.attr("keepdims")), dtype)


def _extremum_shape(ctx: InferContext) -> None:
    """The output lacks the reduced axes (default: all axes); keepdims keeps them with length 1."""
    shape = ctx.input("x").shape
    axes = normalize_axes(ctx, ctx.attr("axis"), len(shape), scalar=True)
    set_nonempty(ctx, shape, axes)


def _position_shape(ctx: InferContext) -> None:
    """The output lacks the reduced axis; keepdims keeps it with length 1."""
    shape = ctx.input("x").shape
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape), scalar=True)
    set_nonempty(ctx, shape, (axis,) if shape else ())


def set_nonempty(
    ctx: InferContext, shape: Axes, axes: Axes, slot: str = "out", dtype: str | None = None
) -> None:
    """Set an output; as in NumPy, fail if an empty axis is reduced to a nonempty result."""
    out = reduced_shape(shape, axes, ctx.attr("keepdims"))
    kept = reduced_shape(shape, axes, keepdims=False)
    if any(shape[axis] == 0 for axis in axes) and 0 not in kept and -1 not in kept:
        ctx.fail(f"an axis to reduce must have elements, got shape {list(shape)}")
    ctx.set_output(slot, out, dtype)


def given_axes(x: Array, axis: Axes) -> Axes | None:
    """Return the axes as NumPy takes them: None for all axes, and for any axis of a scalar."""
    return axis if axis and x.ndim else None


def spread(reduced: Array, shape: Axes, axis: Axes) -> Array:
    """Return a view of a reduced array that broadcasts against `shape`."""
    axes = {a % len(shape) for a in axis} if axis and shape else set(range(len(shape)))
    return reduced.reshape([1 if a in axes else dim for a, dim in enumerate(shape)])


def _accumulator(x: Array, out: Array) -> type[np.floating] | np.dtype[Any]:
    # Half precision accumulates in float32, since 2,048 + 1 is 2,048 in float16.
    return np.float32 if x.itemsize == 2 and x.dtype.kind == "f" else out.dtype


def sum_(x: Array, out: Array, *, axis: Axes, keepdims: bool) -> None:
    np.add.reduce(
        x, axis=given_axes(x, axis), dtype=_accumulator(x, out), out=out, keepdims=keepdims
    )


def sum_grad(out_grad: Array, x_grad: Array, *, axis: Axes, keepdims: bool) -> None:
    np.copyto(x_grad, spread(out_grad, x_grad.shape, axis))


def _sum_meta(ctx: InferContext) -> None:
    """The output lacks the reduced axes (default: all axes); keepdims keeps them with length 1."""
    _set_reduced(ctx, accumulated_dtype(ctx.input("x").dtype))


def accumulation(op_type: str, comment: str) -> OpMaker:
    """Start the definition of a reduction with 64-bit results for integers."""
    return add_axes(
        OpMaker(op_type)
        .add_comment(
            f"{comment} Integers and bool accumulate in 64 bits: the result is int64, or uint64 "
            f"for unsigned ones, as in NumPy. 16-bit floats accumulate in float32."
        )
        .add_input("x", "any shape")
        .dtypes(*ORDERED)
        .add_output(
            "out", "shape of x without the reduced axes, or with 1 there; dtype of x for floats"
        )
        .dtypes(*FLOATS, "int64", "uint64")
    )


SUM = accumulation("sum", "Sum over axes, 0 for no elements.").build(
    infer_shape=_sum_meta, gradient=grad_op("sum_grad", gradient=linear_in("x"))
)


def prod(x: Array, out: Array, *, axis: Axes, keepdims: bool) -> None:
    accumulator = _accumulator(x, out)
    np.multiply.reduce(x, axis=given_axes(x, axis), dtype=accumulator, out=out, keepdims=keepdims)


def _prod_gradient(g: GradientContext) -> None:
    """Multiply by the product of the other elements, without division, since elements may be 0."""
    grad, x = g.output_grad("out"), g.input("x")
    meta = g.meta(x or "")
    if meta is None:
        raise GradientError(
            f"prod: its gradient depends on the number of dimensions of x, got {x!r} without a "
            "shape; declare it, with -1 for unknown dimensions"
        )
    rank = len(meta.shape)
    given = g.attr("axis") if rank else ()
    axes = sorted({axis % rank for axis in given} or range(rank))
    spread = {"axis": g.attr("axis"), "keepdims": g.attr("keepdims")}
    name = g.emit("sum_grad", {"x": x, "out_grad": grad}, {"x_grad": 1}, spread)
    for factor in _other_factors(g, x, axes):
        name = g.emit("multiply", {"x": name, "y": factor})
    g.set_input_grad("x", name)


def _other_factors(g: GradientContext, x: str | None, axes: list[int]) -> Iterator[str]:
    """Yield broadcastable arrays whose product is the product of all other elements.

    Along one axis this is the product of the preceding elements times the product of the following
    elements; then the other axes are reduced.
    """
    for axis in reversed(axes):
        for is_behind in (False, True):
            attrs = {"axis": axis, "exclusive": True, "reverse": is_behind}
            yield g.emit("cumprod", {"x": x}, attrs=attrs)
        if axis != axes[0]:
            x = g.emit("prod", {"x": x}, attrs={"axis": [axis], "keepdims": True})


PROD = accumulation("prod", "Product over axes, 1 for no elements.").build(
    infer_shape=_sum_meta, gradient=_prod_gradient
)


def any_(x: Array, out: Array, *, axis: Axes, keepdims: bool) -> None:
    np.logical_or.reduce(x, axis=given_axes(x, axis), out=out, keepdims=keepdims)


def all_(x: Array, out: Array, *, axis: Axes, keepdims: bool) -> None:
    np.logical_and.reduce(x, axis=given_axes(x, axis), out=out, keepdims=keepdims)


def _truth(op_type: str, comment: str) -> OpDefinition:
    maker = (
        OpMaker(op_type)
        .add_comment(f"{comment} NaN is nonzero.")
        .add_input("x", "any shape")
        .dtypes(*ORDERED)
        .add_output("out", "bool, shape of x without the reduced axes, or with 1 there")
        .dtypes("bool")
    )
    gradient = no_gradient("its result is true or false")
    return add_axes(maker).build(infer_shape=reduced_axes, gradient=gradient)


ANY = _truth("any", "Whether any element is nonzero; false for no elements.")
ALL = _truth("all", "Whether all elements are nonzero; true for no elements.")


def mean(x: Array, out: Array, *, axis: Axes, keepdims: bool) -> None:
    if x.itemsize == 2:
        # The half-precision sum may be infinite though the mean is not.
        total = np.asarray(x.sum(axis=given_axes(x, axis), dtype=np.float32))
        np.divide(total.reshape(out.shape), x.size / max(out.size, 1), out=out)
        return
    np.add.reduce(x, axis=given_axes(x, axis), out=out, keepdims=keepdims)
    np.divide(out, x.size / max(out.size, 1), out=out)


def mean_grad(out_grad: Array, x_grad: Array, *, axis: Axes, keepdims: bool) -> None:
    if x_grad.size:
        share = spread(out_grad, x_grad.shape, axis)
        np.divide(share, x_grad.size // out_grad.size, out=x_grad)


MEAN = fraction(
    "mean",
    "Arithmetic mean over axes, NaN for no elements. 16-bit floats accumulate in float32.",
).build(
    infer_shape=fraction_of_axes,
    gradient=grad_op("mean_grad", gradient=linear_in("x")),
    body=in_fractions(),
)


def max_(x: Array, out: Array, *, axis: Axes, keepdims: bool) -> None:
    np.maximum.reduce(x, axis=given_axes(x, axis), out=out, keepdims=keepdims)


def min_(x: Array, out: Array, *, axis: Axes, keepdims: bool) -> None:
    np.minimum.reduce(x, axis=given_axes(x, axis), out=out, keepdims=keepdims)


def max_grad(
    x: Array, out: Array, out_grad: Array, x_grad: Array, *, axis: Axes, keepdims: bool
) -> None:
    best = spread(out, x.shape, axis)
    picked = np.equal(x, best)
    picked |= np.isnan(x) & np.isnan(best)
    counts = np.asarray(picked.sum(axis=given_axes(x, axis), dtype=np.int64)).reshape(out.shape)
    # The divisor is at least 1, since a direct caller may pass values other than the extrema.
    share = np.divide(out_grad, np.maximum(counts, 1)).astype(x_grad.dtype)
    np.copyto(x_grad, spread(share, x.shape, axis))
    np.copyto(x_grad, 0, where=~picked)


min_grad = max_grad

_TIES = (
    "Elements equal to it, or NaN if it is NaN, share the gradient equally. An empty axis is an "
    "error."
)


MAX = reduction("max", f"Largest element over axes, NaN if any is NaN. {_TIES}", ORDERED).build(
    infer_shape=_extremum_shape,
    gradient=grad_op("max_grad", needs=["x", "out"], gradient=pick_in_shares),
)

MIN = reduction("min", f"Smallest element over axes, NaN if any is NaN. {_TIES}", ORDERED).build(
    infer_shape=_extremum_shape,
    gradient=grad_op("min_grad", needs=["x", "out"], gradient=pick_in_shares),
)


def argmax(x: Array, out: Array, *, axis: int, keepdims: bool) -> None:
    x.argmax(axis=axis, out=out, keepdims=keepdims)


def argmin(x: Array, out: Array, *, axis: int, keepdims: bool) -> None:
    x.argmin(axis=axis, out=out, keepdims=keepdims)


def position(op_type: str, comment: str) -> OpMaker:
    """Start the definition of an operator that returns the index of an extremum."""
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape; a scalar is at index 0")
        .dtypes(*ORDERED)
        .add_output("out", "int64, shape of x without the axis, or with 1 there")
        .dtypes("int64")
        .add_attr("axis", int, "the axis to search")
        .default(-1)
        .add_attr("keepdims", bool, "whether the axis is kept with length 1")
        .default(False)
    )


ARGMAX = position(
    "argmax", "Index of the first maximum along an axis; NaN counts as the largest."
).build(infer_shape=_position_shape, gradient=no_gradient("its result is an index"))

ARGMIN = position(
    "argmin", "Index of the first minimum along an axis; NaN counts as the smallest."
).build(infer_shape=_position_shape, gradient=no_gradient("its result is an index"))


def _both_shape(ctx: InferContext) -> None:
    """The outputs lack the reduced axes (default: all axes); keepdims keeps them with length 1."""
    shape = ctx.input("x").shape
    axes = normalize_axes(ctx, ctx.attr("axis"), len(shape), scalar=True)
    for slot in ("min", "max"):
        set_nonempty(ctx, shape, axes, slot)


def _both_body(b: BodyContext) -> None:
    for slot in ("min", "max"):
        if b.has_output(slot):
            b.emit(slot, {"x": b.input("x")}, {"out": b.output(slot)}, b.attrs)


AMINMAX = (
    OpMaker("aminmax")
    .add_comment(f"Smallest and largest element over axes, as `min` and `max`. {_TIES}")
    .add_input("x", "any shape")
    .dtypes(*ORDERED)
    .add_output("min", "shape of x without the reduced axes, or with 1 there; dtype of x")
    .same_dtype_as("x")
    .add_output("max", "shape and dtype of min")
    .same_dtype_as("x")
    .add_attr("axis", list[int], "axes to reduce; none given: all")
    .default([])
    .add_attr("keepdims", bool, "whether reduced axes are kept with length 1")
    .default(False)
    .build(infer_shape=_both_shape, body=_both_body)
)
