"""Swish, a smooth relative of relu: its description, its gradient, and NumPy kernels for both."""

import numpy as np

from opwright.op import OpMaker, grad_op, same_shape_as


def _sigmoid(x):
    # 1 / (1 + exp(-x)) overflows if x is very negative; this neither overflows nor loses precision.
    return np.exp(-np.logaddexp(0, -x))


def swish(x, out, *, beta):
    """Write x * sigmoid(beta * x) into `out`."""
    np.multiply(x, _sigmoid(beta * x), out=out)


def swish_grad(x, out_grad, x_grad, *, beta):
    """Write out_grad * (s + beta * x * s * (1 - s)), s = sigmoid(beta * x), into `x_grad`."""
    s = _sigmoid(beta * x)
    np.multiply(out_grad, s + beta * x * s * (1 - s), out=x_grad)


SWISH = (
    OpMaker("acme.swish")
    .add_comment("Swish, out = x * sigmoid(beta * x). Ramachandran et al., 2017.")
    .add_input("x", "any shape, float")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("beta", float, "steepness")
    .default(1.0)
    .greater_than(0.0)
    .build(infer_shape=same_shape_as("x"), gradient=grad_op("acme.swish_grad", needs=["x"]))
)
