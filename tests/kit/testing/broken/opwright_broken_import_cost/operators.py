"""An operator without a fault."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def twice(x, out):
    np.multiply(x, 2, out=out)


TWICE = (
    OpMaker("broken_import_cost.twice")
    .add_comment("Twice, out = 2 * x.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its import is of interest"))
)
