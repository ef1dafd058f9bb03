"""Kernels that write to the memory of an input, with or without its read-only view."""

import ctypes

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def negate(x, out):
    np.negative(x, out=out)
    ctypes.memmove(x.ctypes.data, out.ctypes.data, x.nbytes)


def double(x, out):
    np.multiply(x, 2, out=x)
    np.copyto(out, x)


def _make(name, comment):
    return (
        OpMaker(f"broken_inputs_unchanged.{name}")
        .add_comment(comment)
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel matters"))
    )


NEGATE = _make("negate", "Negative, out = -x.")
DOUBLE = _make("double", "Twice, out = 2 * x.")
