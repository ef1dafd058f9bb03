"""Element-wise logic of any dtype, with NumPy's truth (nonzero, including NaN); bool results."""

from __future__ import annotations

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.comparison import to_bool


def logical_and(x: Array, y: Array, out: Array) -> None:
    np.logical_and(x, y, out=out)


def logical_or(x: Array, y: Array, out: Array) -> None:
    np.logical_or(x, y, out=out)


def logical_xor(x: Array, y: Array, out: Array) -> None:
    np.logical_xor(x, y, out=out)


def logical_not(x: Array, out: Array) -> None:
    np.logical_not(x, out=out)


LOGICAL_AND = to_bool("logical_and", "True where x and y are both true (nonzero).")
LOGICAL_OR = to_bool("logical_or", "True where x or y is true (nonzero).")
LOGICAL_XOR = to_bool("logical_xor", "True where exactly one of x and y is true (nonzero).")
LOGICAL_NOT = (
    OpMaker("logical_not")
    .add_comment("True where x is false (0).")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "bool of the shape of x")
    .dtypes("bool")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("its result is bool"))
)
