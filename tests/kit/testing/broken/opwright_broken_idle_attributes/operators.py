"""Doubles the input for any factor. Values and gradients agree, but both are wrong.

The fixed version of the operator multiplies by the factor.
"""

import numpy as np

from opwright.op import OpMaker, grad_op, same_shape_as


def scaled(x, out, *, factor):
    np.multiply(x, 2, out=out)


def scaled_grad(out_grad, x_grad, *, factor):
    np.multiply(out_grad, 2, out=x_grad)


def scaled_fixed(x, out, *, factor):
    np.multiply(x, factor, out=out)


def scaled_fixed_grad(out_grad, x_grad, *, factor):
    np.multiply(out_grad, factor, out=x_grad)


SCALED, SCALED_FIXED = (
    OpMaker(f"broken_idle_attributes.scaled{twin}")
    .add_comment("Product with a number, out = factor * x.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("factor", float, "what x is multiplied by")
    .default(2.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op(f"broken_idle_attributes.scaled{twin}_grad"),
    )
    for twin in ("", "_fixed")
)
