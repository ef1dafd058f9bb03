"""Operators with different messages for an input with an unexpected shape."""

import numpy as np

from opwright.errors import ShapeError
from opwright.op import OpMaker, no_gradient


def first_column(x, out):
    np.copyto(out, x[:, 0])


def _bare(ctx):
    rows, columns = ctx.input("x").shape  # ValueError unless x is a matrix
    ctx.require(columns != 0, f"x must have a column, got {columns}; give it one")
    ctx.set_output("out", [rows])


def _unnamed(ctx):
    shape = ctx.input("x").shape
    if len(shape) != 2 or shape[1] == 0:
        raise ShapeError(f"x must be a matrix with a column, got shape {list(shape)}; reshape it")
    ctx.set_output("out", shape[:1])


def _no_value(ctx):
    shape = ctx.input("x").shape
    ctx.require(len(shape) == 2 and shape[1] != 0, "the input is invalid")
    ctx.set_output("out", shape[:1])


def _make(name, infer_shape):
    return (
        OpMaker(f"broken_error_texts.{name}")
        .add_comment("The first column of a matrix, out = x[:, 0].")
        .add_input("x", "float [n, k], k at least 1")
        .dtypes("float32", "float64")
        .add_output("out", "[n], dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=infer_shape, gradient=no_gradient("only its errors are of interest"))
    )


BARE = _make("bare", _bare)
UNNAMED = _make("unnamed", _unnamed)
NO_VALUE = _make("no_value", _no_value)
