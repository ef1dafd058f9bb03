"""Copies that end the process or themselves never, where they are given no elements, or nine."""

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
