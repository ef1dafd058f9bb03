"""Cumulative sums, products, extrema and logsumexp along one axis."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    GradientContext,
    InferContext,
    OpDefinition,
    OpMaker,
    grad_op,
    normalize_axis,
)
from opwright_std.compositions import layers as layers_gradients
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.numerics.dtypes import FLOATS, ORDERED, Array, accumulated_dtype
from opwright_std.operators.sort import shape_with_indices


def cumsum(x: Array, out: Array, *, axis: int, exclusive: bool, reverse: bool) -> None:
    _accumulate(np.add, x, out, axis, exclusive, reverse)


def cumprod(x: Array, out: Array, *, axis: int, exclusive: bool, reverse: bool) -> None:
    _accumulate(np.multiply, x, out, axis, exclusive, reverse)


def cumprod_grad(
    x: Array, out_grad: Array, x_grad: Array, *, axis: int, exclusive: bool, reverse: bool
) -> None:
    # The gradient of x[i] is the product of the preceding elements times a factor from later ones,
    # rest[i] = out_grad[i] + x[i + 1] * rest[i + 1], shifted by one element if out excludes x[i].
    # The formula does not divide, so elements may be 0.
    before = np.empty_like(x, _accumulator(x, x_grad))
    _accumulate(np.multiply, x, before, axis, True, reverse)
    factors, grads, result, before = (
        _lines(array, axis, reverse) for array in (x, out_grad, x_grad, before)
    )
    rest = np.zeros(factors.shape[1:], before.dtype)
    for i in reversed(range(len(factors))):
        if not exclusive:
            rest = grads[i] + rest
        result[i] = before[i] * rest
        rest = factors[i] * rest
        if exclusive:
            rest = grads[i] + rest


def _lines(array: Array, axis: int, reverse: bool) -> Array:
    """Return a view with the cumulated axis first, in the given direction."""
    lines = np.moveaxis(array, axis, 0) if array.ndim else array.reshape(1)
    return lines[::-1] if reverse else lines


def _accumulator(x: Array, out: Array) -> np.dtype[np.generic]:
    # Half precision accumulates in float32, since 2,048 + 1 is 2,048 in float16.
    return np.dtype(np.float32) if x.dtype == np.float16 else out.dtype


def _accumulate(
    function: np.ufunc, x: Array, out: Array, axis: int, exclusive: bool, reverse: bool
) -> None:
    source, target = _lines(x, axis, reverse), _lines(out, axis, reverse)
    if exclusive and len(source):
        target[0] = function.identity
        source, target = source[:-1], target[1:]
    target[...] = function.accumulate(source, axis=0, dtype=_accumulator(x, out))


def _cumulative_meta(ctx: InferContext) -> None:
    """The output has the shape of x."""
    x = ctx.input("x")
    normalize_axis(ctx, ctx.attr("axis"), len(x.shape), scalar=True)
    ctx.set_output("out", x.shape, accumulated_dtype(x.dtype))


def cumulative(op_type: str, comment: str) -> OpMaker:
    """Start the definition of a cumulative sum or product."""
    return (
        OpMaker(op_type)
        .add_comment(
            f"{comment} Integers and bool accumulate in 64 bits: the result is int64, or uint64 "
            f"for unsigned ones, as in NumPy. 16-bit floats accumulate in float32."
        )
        .add_input("x", "any shape; a scalar is one element along axis 0")
        .dtypes(*ORDERED)
        .add_output("out", "shape of x; dtype of x for floats")
        .dtypes(*FLOATS, "int64", "uint64")
        .add_attr("axis", int, "the axis to accumulate along")
        .required()
        .add_attr("exclusive", bool, "whether out[i] excludes x[i]")
        .default(False)
        .add_attr("reverse", bool, "whether to start at the end of the axis")
        .default(False)
    )


CUMSUM = cumulative("cumsum", "Cumulative sum, out[i] = x[0] + ... + x[i] along one axis.").build(
    infer_shape=_cumulative_meta,
    gradient=chain_rule(
        lambda grad, g: grad.then("cumsum", **{**g.attrs, "reverse": not g.attr("reverse")})
    ),
)

CUMPROD = cumulative(
    "cumprod", "Cumulative product, out[i] = x[0] * ... * x[i] along one axis."
).build(
    infer_shape=_cumulative_meta,
    gradient=grad_op("cumprod_grad", needs=["x"], body=layers_gradients.cumprod),
)


def cummax(x: Array, out: Array, indices: Array | None, *, axis: int) -> None:
    _extrema(np.maximum, x, out, indices, axis)


def cummin(x: Array, out: Array, indices: Array | None, *, axis: int) -> None:
    _extrema(np.minimum, x, out, indices, axis)


def _extrema(function: np.ufunc, x: Array, out: Array, indices: Array | None, axis: int) -> None:
    source, target = _lines(x, axis, False), _lines(out, axis, False)
    if x.dtype.kind == "f":
        # maximum(NaN, 1) and maximum(1, NaN) are both NaN, so the first NaN is kept.
        function.accumulate(source, axis=0, out=target)
    else:
        target[...] = function.accumulate(source, axis=0)
    if indices is None or not x.size:
        return
    places = np.arange(len(source)).reshape(-1, *[1] * (source.ndim - 1))
    is_new = (source == target) | (source != source)
    found = np.maximum.accumulate(np.where(is_new, places, 0), axis=0)
    _lines(indices, axis, False)[...] = found


def _extrema_gradient(g: GradientContext) -> None:
    grad, x = g.output_grad("out"), g.input("x")
    meta = g.meta(x or "")
    if meta is not None and not meta.shape:
        g.set_input_grad("x", grad)
        return
    inputs = {"x": x, "index": g.output("indices"), "out_grad": grad}
    attrs = {"axis": g.attr("axis")}
    g.set_input_grad("x", g.emit("take_along_axis_grad", inputs, {"x_grad": 1}, attrs))


def _extremum(op_type: str, comment: str) -> OpDefinition:
    return (
        OpMaker(op_type)
        .add_comment(
            f"{comment} along one axis; after a NaN, results are NaN. The gradient goes to the "
            f"element at indices, the last of equal elements."
        )
        .add_input("x", "any shape; a scalar is one element along axis 0")
        .dtypes(*ORDERED)
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .add_output("indices", "its index along the axis, int64, shape of x")
        .dtypes("int64")
        .as_intermediate()
        .add_attr("axis", int, "the axis to accumulate along")
        .required()
        .build(infer_shape=shape_with_indices, gradient=_extrema_gradient)
    )


CUMMAX = _extremum("cummax", "Largest element so far, out[i] = max(x[0], ..., x[i])")
CUMMIN = _extremum("cummin", "Smallest element so far, out[i] = min(x[0], ..., x[i])")


def logcumsumexp(x: Array, out: Array, *, axis: int, reverse: bool) -> None:
    source, target = _lines(x, axis, reverse), _lines(out, axis, reverse)
    target[...] = np.logaddexp.accumulate(source.astype(_accumulator(x, out)), axis=0)


def logcumsumexp_grad(
    x: Array, out: Array, out_grad: Array, x_grad: Array, *, axis: int, reverse: bool
) -> None:
    """Scan backward: x[i] contributes to sum i and later sums, whose logarithms increase."""
    arrays = (_lines(array, axis, reverse) for array in (x, out, out_grad, x_grad))
    xs, sums, grads, result = arrays
    kind = _accumulator(x, x_grad)
    total = np.zeros(xs.shape[1:], kind)
    with np.errstate(invalid="ignore"):
        for i in reversed(range(len(xs))):
            if i + 1 < len(xs):
                # Equal infinities have difference 0.
                step = np.subtract(sums[i], sums[i + 1], dtype=kind)
                total = total * np.where(sums[i] == sums[i + 1], 1, np.exp(step))
            total = total + grads[i]
            share = np.exp(np.subtract(xs[i], sums[i], dtype=kind))
            result[i] = total * np.where(np.isneginf(xs[i]), 0, share)


LOGCUMSUMEXP = (
    OpMaker("logcumsumexp")
    .add_comment(
        "Logarithm of a cumulative sum of exponentials, out[i] = ln(exp(x[0]) + ... + exp(x[i])) "
        "along one axis, without overflow. 16-bit floats accumulate in float32."
    )
    .add_input("x", "any shape; a scalar is one element along axis 0")
    .dtypes(*FLOATS)
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis to accumulate along")
    .required()
    .add_attr("reverse", bool, "whether to start at the end of the axis")
    .default(False)
    .build(
        infer_shape=_cumulative_meta,
        gradient=grad_op(
            "logcumsumexp_grad", needs=["x", "out"], body=layers_gradients.LOGCUMSUMEXP
        ),
    )
)
