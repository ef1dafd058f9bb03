"""Operators told apart by what they say of another input: of its shape, or of a value in it."""

import numpy as np

from opwright.errors import ShapeError
from opwright.op import OpMaker, no_gradient


def first_column(x, out):
    np.copyto(out, x[:, 0])


def _bare(ctx):
    rows, columns = ctx.input("x").shape  # ValueError for anything but a matrix
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


def pick(x, index, out):
    wrong = index[(index < 0) | (index >= len(x))]
    if wrong.size:
        raise ValueError(f"index must be in [0, {len(x)}), got {wrong[0]}")
    np.copyto(out, x[index])


def pick_by_index(x, index, out):
    if np.any(index < 0):
        raise IndexError("negative")
    np.copyto(out, x[index])  # IndexError: index 4 is out of bounds for axis 0 with size 3


def pick_clipped(x, index, out):
    np.copyto(out, x[np.clip(index, 0, max(len(x) - 1, 0))])


def _pick_shape(ctx):
    x, index = ctx.input("x").shape, ctx.input("index").shape
    ctx.require(len(x) == 1 and len(index) == 1, f"x and index must be vectors, got {x}, {index}")
    ctx.require(x[0] != 0 or index[0] == 0, f"x must have an element to pick, got {list(x)}")
    ctx.set_output("out", index)


def _make_pick(name):
    return (
        OpMaker(f"broken_error_texts.{name}")
        .add_comment("Elements at positions, out[i] = x[index[i]].")
        .add_input("x", "float [n]")
        .dtypes("float32", "float64")
        .add_input("index", "positions [m] in [0, n)")
        .dtypes("int64")
        .add_output("out", "[m], dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=_pick_shape, gradient=no_gradient("only its errors are of interest"))
    )


PICK = _make_pick("pick")
PICK_CLIPPED = _make_pick("pick_clipped")
