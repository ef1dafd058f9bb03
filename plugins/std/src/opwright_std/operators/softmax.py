"""Softmax along one axis."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, normalize_axis
from opwright_std.compositions import normalizations as normalizations_gradients
from opwright_std.numerics.dtypes import FLOATS, Array


def along_axis(op_type: str, comment: str) -> OpMaker:
    """Start the definition of a float ``x -> out`` of equal shapes with the attribute axis."""
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "float, any shape; a scalar is one class")
        .dtypes(*FLOATS)
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .add_attr("axis", int, "the axis of the classes")
        .default(-1)
    )


def along_axis_shape(ctx: InferContext) -> None:
    """The output has the shape of x; axis must be one of its axes, 0 or -1 for a scalar."""
    shape = ctx.input("x").shape
    normalize_axis(ctx, ctx.attr("axis"), len(shape), scalar=True)
    ctx.set_output("out", shape)


def shift_by_maximum(x: Array, out: Array, axis: int) -> None:
    """Emit x minus its maximum along `axis`; this is at most 0, so exp cannot overflow."""
    # The initial value is for an empty axis; -inf - -inf is intentionally NaN, without a warning.
    highest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        np.subtract(x, highest, out=out)


def softmax(x: Array, out: Array, *, axis: int) -> None:
    shift_by_maximum(x, out, axis)
    np.exp(out, out=out)
    out /= np.sum(out, axis=axis, keepdims=True)


def softmax_grad(out: Array, out_grad: Array, x_grad: Array, *, axis: int) -> None:
    np.multiply(out, out_grad, out=x_grad)
    inner = np.sum(x_grad, axis=axis, keepdims=True)
    np.subtract(out_grad, inner, out=x_grad)
    x_grad *= out


SOFTMAX = along_axis(
    "softmax",
    "Softmax, out = exp(x - m) / sum(exp(x - m)) with m = max(x), along one axis. An element -inf "
    "has probability 0; a line that is all -inf, or contains NaN or +inf, becomes NaN.",
).build(
    infer_shape=along_axis_shape,
    gradient=grad_op("softmax_grad", needs=["out"], body=normalizations_gradients.SOFTMAX),
)
