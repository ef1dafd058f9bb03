"""Negates in the input's own memory, past the read-only view, and copies from there."""

import ctypes

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def negate(x, out):
    np.negative(x, out=out)
    ctypes.memmove(x.ctypes.data, out.ctypes.data, x.nbytes)


NEGATE = (
    OpMaker("broken_inputs_unchanged.negate")
    .add_comment("Negative, out = -x.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest"))
)
