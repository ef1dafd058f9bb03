"""Doubles x, and writes one element beyond the output."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def twice(x, out):
    longer = np.lib.stride_tricks.as_strided(out, (out.size + 1,), (out.itemsize,))
    longer[:-1] = 2 * x.reshape(-1)
    longer[-1] = 0


TWICE = (
    OpMaker("broken_guard_bytes.twice")
    .add_comment("Twice, out = 2 * x.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest"))
)
