"""Operators that accept indices out of range, or refuse them with unhelpful messages."""

import numpy as np

from opwright.op import OpMaker, no_gradient


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
        OpMaker(f"broken_out_of_range.{name}")
        .add_comment("Elements at positions, out[i] = x[index[i]].")
        .add_input("x", "float [n]")
        .dtypes("float32", "float64")
        .add_input("index", "positions [m] in [0, n)")
        .dtypes("int64")
        .add_output("out", "[m], dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=_pick_shape, gradient=no_gradient("only its positions are of interest"))
    )


PICK = _make_pick("pick")
PICK_CLIPPED = _make_pick("pick_clipped")
