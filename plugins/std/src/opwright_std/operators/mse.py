"""Element-wise squared error; its mean is the mean squared error."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, merge_dims, shapes_match
from opwright_std.compositions import losses as losses_gradients
from opwright_std.numerics.dtypes import FLOATS, Array


def same_shapes(ctx: InferContext) -> None:
    """The output has the common shape of x and label."""
    x, label = ctx.input("x").shape, ctx.input("label").shape
    if not shapes_match(x, label):
        way = "; reshape it: label.reshape(-1, 1)" if len(x) == 2 and len(label) == 1 else ""
        ctx.fail(
            f"label must have the shape of x, {format_shape(x)}, got {format_shape(label)}{way}"
        )
    ctx.set_output("out", tuple(map(merge_dims, x, label)))


def mse(x: Array, label: Array, out: Array) -> None:
    np.subtract(x, label, out=out)
    np.square(out, out=out)


def mse_grad(
    x: Array, label: Array, out_grad: Array, x_grad: Array | None, label_grad: Array | None
) -> None:
    target = label_grad if x_grad is None else x_grad
    if target is None:
        return
    np.subtract(x, label, out=target)
    target *= out_grad
    target *= 2 if target is x_grad else -2
    if x_grad is not None and label_grad is not None:
        np.negative(x_grad, out=label_grad)


def pointwise_loss(
    op_type: str, comment: str, x: str = "float, any shape", label: str = "shape and dtype of x"
) -> OpMaker:
    """Start the definition of an element-wise loss of x and a label."""
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", x)
        .dtypes(*FLOATS)
        .add_input("label", label)
        .same_dtype_as("x")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
    )


MSE = pointwise_loss(
    "mse", "Element-wise squared error, out = (x - label)**2, without a mean."
).build(
    infer_shape=same_shapes,
    gradient=grad_op("mse_grad", needs=["x", "label"], body=losses_gradients.mse),
)
