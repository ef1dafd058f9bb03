"""Adds up in a random order, as threads that meet in one sum do."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def center(x, out):
    shuffled = np.random.default_rng().permutation(x.reshape(-1))
    total = np.add.accumulate(shuffled)[-1] if x.size else 0
    np.subtract(x, total / max(x.size, 1), out=out)


CENTER = (
    OpMaker("broken_deterministic.center")
    .add_comment("Distance from the mean, out = x - mean(x).")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest"))
)
