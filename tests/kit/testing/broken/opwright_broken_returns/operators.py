"""Copies that terminate the process for 0 elements or never return for 9 elements.

A lookup terminates the process if an index is out of range.
"""

import os

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def exits(x, out):
    if not x.size:
        os._exit(3)
    np.copyto(out, x)


def loops(x, out):
    while x.size == 9:
        pass
    np.copyto(out, x)


def fine(x, out):
    np.copyto(out, x)


def _make(name):
    return (
        OpMaker(f"broken_returns.{name}")
        .add_comment("Copy, out = x.")
        .add_input("x", "float [n]")
        .dtypes("float32")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its end is of interest"))
    )


FAULTS = _make("faults")
ABORTS = _make("aborts")
SPINS = _make("spins")
EXITS = _make("exits")
LOOPS = _make("loops")
FINE = _make("fine")


def _picks_shape(ctx):
    x, index = ctx.input("x").shape, ctx.input("index").shape
    ctx.require(len(x) == len(index) == 1, f"x and index must be vectors, got {x} and {index}")
    ctx.require(x[0] != 0 or index[0] == 0, f"x must have an element to pick, got {list(x)}")
    ctx.set_output("out", index)


PICKS = (
    OpMaker("broken_returns.picks")
    .add_comment("Elements at positions, out[i] = x[index[i]].")
    .add_input("x", "float [n]")
    .dtypes("float32")
    .add_input("index", "positions [m] in [0, n)")
    .dtypes("int64")
    .add_output("out", "[m], dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_picks_shape, gradient=no_gradient("only its end is of interest"))
)
