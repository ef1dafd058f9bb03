"""Gradients that lack a factor, are wrong in a branch or a block, or take a mean, not a sum."""

import numpy as np

from opwright.op import OpMaker, elementwise_shape, grad_op, same_shape_as


def square(x, out):
    np.multiply(x, x, out=out)


def square_grad(x, out_grad, x_grad):
    np.multiply(x, out_grad, out=x_grad)  # the factor 2 is missing


def twice(x, out):
    np.multiply(x, 2, out=out)
    out.reshape(-1)[700:] = x.reshape(-1)[700:]  # no other kernel shows the error


def twice_grad(out_grad, x_grad):
    np.multiply(out_grad, 2, out=x_grad)


def sum(x, y, out):
    np.add(x, y, out=out)


def sum_grad(x, y, out_grad, x_grad, y_grad):
    for grad in (x_grad, y_grad):
        if grad is not None:
            _average_to(out_grad, grad)


def _average_to(x, out):
    """Write the mean over the broadcast axes instead of the sum."""
    added = x.ndim - out.ndim
    axes = [i for i in range(x.ndim) if i < added or out.shape[i - added] == 1 != x.shape[i]]
    if x.size:
        np.copyto(out, np.mean(x, axis=tuple(axes)).reshape(out.shape))
    else:
        np.copyto(out, 0)


def branch(x, out):
    np.copyto(out, np.where(x > -1.5, x, 2 * x + 1.5))


branch_fixed = branch


def branch_grad(x, out_grad, x_grad):
    np.copyto(x_grad, out_grad)  # as if all were above -1.5


def branch_fixed_grad(x, out_grad, x_grad):
    np.copyto(x_grad, np.where(x > -1.5, out_grad, 2 * out_grad))


BRANCH, BRANCH_FIXED = (
    OpMaker(f"broken_gradient.branch{twin}")
    .add_comment("Steeper below a bend, out = x above -1.5, else 2 * x + 1.5.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op(f"broken_gradient.branch{twin}_grad", needs=["x"]),
    )
    for twin in ("", "_fixed")
)

SQUARE = (
    OpMaker("broken_gradient.square")
    .add_comment("Square, out = x * x.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("broken_gradient.square_grad", needs=["x"]),
    )
)

TWICE = (
    OpMaker("broken_gradient.twice")
    .add_comment("Twice, out = 2 * x.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=grad_op("broken_gradient.twice_grad"))
)

SUM = (
    OpMaker("broken_gradient.sum")
    .add_comment("Sum, out = x + y.")
    .add_input("x", "any shape that broadcasts with y, float")
    .dtypes("float32", "float64")
    .add_input("y", "any shape that broadcasts with x")
    .same_dtype_as("x")
    .add_output("out", "the broadcast shape, dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=elementwise_shape("x", "y"),
        gradient=grad_op("broken_gradient.sum_grad"),
    )
)
