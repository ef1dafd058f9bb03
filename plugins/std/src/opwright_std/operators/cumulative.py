"""Running sums and products along one axis."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    INT_DTYPES,
    GradientContext,
    InferContext,
    OpMaker,
    grad_op,
    normalize_axis,
)
from opwright_std.compositions import layers as layers_gradients
from opwright_std.numerics.dtypes import FLOATS, NUMBERS, Array


def cumsum(x: Array, out: Array, *, axis: int, exclusive: bool, reverse: bool) -> None:
    _accumulate(np.add, x, out, axis, exclusive, reverse)


def cumprod(x: Array, out: Array, *, axis: int, exclusive: bool, reverse: bool) -> None:
    _accumulate(np.multiply, x, out, axis, exclusive, reverse)


def cumprod_grad(
    x: Array, out_grad: Array, x_grad: Array, *, axis: int, exclusive: bool, reverse: bool
) -> None:
    # The gradient of x[i] is the product of what comes before it times a rest, which is
    # rest[i] = out_grad[i] + x[i + 1] * rest[i + 1], or begins one later where out excludes x[i]:
    # no division, which zeros would end.
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
    """Return a view whose first axis is the one that is walked along, in that direction."""
    lines = np.moveaxis(array, axis, 0) if array.ndim else array.reshape(1)
    return lines[::-1] if reverse else lines


def _accumulator(x: Array, out: Array) -> np.dtype[np.generic]:
    # Half precision is added up in single: 2,048 + 1 is 2,048 in it.
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
    dtype = x.dtype
    if dtype in INT_DTYPES:
        dtype = "uint64" if dtype.startswith("u") else "int64"
    ctx.set_output("out", x.shape, dtype)


def _cumsum_gradient(g: GradientContext) -> None:
    attrs = {**g.attrs, "reverse": not g.attr("reverse")}
    g.set_input_grad("x", g.emit("cumsum", {"x": g.output_grad("out")}, attrs=attrs))


def _cumulative(op_type: str, comment: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(
            f"{comment} Whole numbers are taken in 64 bits: the result is int64, or uint64 of "
            "unsigned ones, as NumPy's is. 16-bit floats are taken in float32."
        )
        .add_input("x", "any shape; a number is one element along axis 0")
        .dtypes(*NUMBERS)
        .add_output("out", "shape of x; a float as x is")
        .dtypes(*FLOATS, "int64", "uint64")
        .add_attr("axis", int, "the axis to go along")
        .required()
        .add_attr("exclusive", bool, "whether each element of out leaves out that of x")
        .default(False)
        .add_attr("reverse", bool, "whether it begins at the end of the axis")
        .default(False)
    )


CUMSUM = _cumulative("cumsum", "Running sum, out[i] = x[0] + ... + x[i] along one axis.").build(
    infer_shape=_cumulative_meta, gradient=_cumsum_gradient
)

CUMPROD = _cumulative(
    "cumprod", "Running product, out[i] = x[0] * ... * x[i] along one axis."
).build(
    infer_shape=_cumulative_meta,
    gradient=grad_op("cumprod_grad", needs=["x"], body=layers_gradients.CUMPROD),
)
