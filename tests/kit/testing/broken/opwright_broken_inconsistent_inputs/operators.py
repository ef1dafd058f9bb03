"""Sums whose shape rule checks each input separately."""

import numpy as np

from opwright.op import OpMaker, no_gradient


def _as_long_as(array, n):
    """View an array as n elements, like a compiled kernel that assumes another array's length."""
    return np.lib.stride_tricks.as_strided(array, (n,), (array.itemsize,))


def reads_beside(x, y, out):
    np.add(x, _as_long_as(y, len(x)), out=out)


def writes_beside(x, y, out):
    np.add(_as_long_as(x, len(y)), y, out=_as_long_as(out, len(y)))


def adds(x, y, out):
    np.add(x, y, out=out)


def cuts(x, y, out):
    n = min(len(x), len(y))
    out[...] = x
    out[:n] += y[:n]


def _shape_of_x(ctx):
    for slot in ("x", "y"):
        shape = ctx.input(slot).shape
        fits = len(shape) == 1 and shape[0] != 0  # an array without elements has no address either
        ctx.require(fits, f"{slot} must be a vector with elements, got shape {list(shape)}")
    ctx.set_output("out", ctx.input("x").shape)


def _make(name):
    return (
        OpMaker(f"broken_inconsistent_inputs.{name}")
        .add_comment("Sum, out = x + y.")
        .add_input("x", "float [n]")
        .dtypes("float32", "float64")
        .add_input("y", "[n], dtype of x")
        .same_dtype_as("x")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=_shape_of_x, gradient=no_gradient("only its inputs are of interest"))
    )


READS_BESIDE = _make("reads_beside")
WRITES_BESIDE = _make("writes_beside")
CUTS = _make("cuts")
