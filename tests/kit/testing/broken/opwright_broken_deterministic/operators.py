"""Sums in a random order, like threads that add to one shared sum."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as

_orders = np.random.default_rng(0)  # a new order for each call, the same sequence in each process


def center(x, out):
    if x.size:
        shuffled = _orders.permutation(x.reshape(-1))
        np.subtract(x, np.add.accumulate(shuffled)[-1] / x.size, out=out)


CENTER = (
    OpMaker("broken_deterministic.center")
    .add_comment("Distance from the mean, out = x - mean(x).")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest"))
)
