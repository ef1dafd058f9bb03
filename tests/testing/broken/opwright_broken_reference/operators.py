"""Two fast kernels beside a right one: the tail of a vector, and what lies beyond a block."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as

_WIDTH = 8
_BLOCK = 256


def twice(x, out):
    np.multiply(x, 2, out=out)


def fast_tail(x, out):
    flat, target = x.reshape(-1), out.reshape(-1)
    whole = flat.size - flat.size % _WIDTH
    np.multiply(flat[:whole], 2, out=target[:whole])
    target[whole:] = flat[whole:]


def fast_large(x, out):
    flat, target = x.reshape(-1), out.reshape(-1)
    np.multiply(flat, 2, out=target)
    target[_BLOCK:] += 1


def _make(name):
    return (
        OpMaker(f"broken_reference.{name}")
        .add_comment("Twice, out = 2 * x.")
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only values matter here"))
    )


TAIL = _make("tail")
LARGE = _make("large")
