"""An operator whose comments only repeat the names that they should explain."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def twice(x, out):
    np.multiply(x, 2, out=out)


TWICE = (
    OpMaker("broken_documented.twice")
    .add_comment("twice")
    .add_input("x", "x")
    .dtypes("float32", "float64")
    .add_output("out", "out")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its comments matter here"))
)
