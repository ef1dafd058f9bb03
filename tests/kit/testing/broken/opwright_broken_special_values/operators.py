"""Kernels that are correct only for finite numbers."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def drops_nan(x, out):
    np.copyto(out, 0)
    np.copyto(out, -x, where=x < 0)
    np.copyto(out, x, where=x > 0)


def drops_infinity(x, out):
    np.multiply(np.nan_to_num(x, nan=np.nan, posinf=0, neginf=0), 2, out=out)


def raises(x, out):
    out.reshape(-1)[:] = [2 * int(value * 64) / 64 for value in x.reshape(-1)]


def twice(x, out):
    np.multiply(x, 2, out=out)


def like_reference(x, out):
    np.multiply(np.nan_to_num(x, posinf=np.inf, neginf=-np.inf), 2, out=out)


def _make(name, comment):
    return (
        OpMaker(f"broken_special_values.{name}")
        .add_comment(comment)
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only values matter here"))
    )


DROPS_NAN = _make("drops_nan", "Absolute value, out = abs(x).")
DROPS_INFINITY = _make("drops_infinity", "Twice, out = 2 * x.")
RAISES = _make("raises", "Twice, cut to parts of 64.")
LIKE_REFERENCE = _make("like_reference", "Twice, out = 2 * x.")
