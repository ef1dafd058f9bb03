"""A kernel with one scratch buffer for each size, shared by all threads."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as

_scratch = {}


def twice(x, out):
    scratch = _scratch.setdefault((x.shape, x.dtype), np.empty_like(x))
    np.multiply(x, 2, out=scratch)
    np.copyto(out, scratch)


def twice_fixed(x, out):
    scratch = np.empty_like(x)
    np.multiply(x, 2, out=scratch)
    np.copyto(out, scratch)


TWICE, TWICE_FIXED = (
    OpMaker(f"broken_threads.twice{twin}")
    .add_comment("Twice, out = 2 * x.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest"))
    for twin in ("", "_fixed")
)
