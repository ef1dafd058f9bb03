"""Element-wise comparisons: two inputs of one dtype that broadcast, and a bool result."""

from __future__ import annotations

import numpy as np

from opwright.op import OpDefinition, OpMaker, elementwise_shape, no_gradient
from opwright_std.numerics.dtypes import Array


def equal(x: Array, y: Array, out: Array) -> None:
    np.equal(x, y, out=out)


def not_equal(x: Array, y: Array, out: Array) -> None:
    np.not_equal(x, y, out=out)


def less(x: Array, y: Array, out: Array) -> None:
    np.less(x, y, out=out)


def less_equal(x: Array, y: Array, out: Array) -> None:
    np.less_equal(x, y, out=out)


def greater(x: Array, y: Array, out: Array) -> None:
    np.greater(x, y, out=out)


def greater_equal(x: Array, y: Array, out: Array) -> None:
    np.greater_equal(x, y, out=out)


def to_bool(op_type: str, comment: str) -> OpDefinition:
    """Define an element-wise ``x, y -> out`` whose result is bool."""
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape that broadcasts with y, any dtype")
        .add_input("y", "any shape that broadcasts with x")
        .same_dtype_as("x")
        .add_output("out", "bool of the broadcast shape")
        .dtypes("bool")
        .build(
            infer_shape=elementwise_shape("x", "y"),
            gradient=no_gradient("its result is bool"),
        )
    )


EQUAL = to_bool("equal", "out = x == y, element by element; NaN equals nothing.")
NOT_EQUAL = to_bool("not_equal", "out = x != y, element by element; NaN differs from everything.")
LESS = to_bool("less", "out = x < y, element by element; false where one is NaN.")
LESS_EQUAL = to_bool("less_equal", "out = x <= y, element by element; false where one is NaN.")
GREATER = to_bool("greater", "out = x > y, element by element; false where one is NaN.")
GREATER_EQUAL = to_bool(
    "greater_equal", "out = x >= y, element by element; false where one is NaN."
)
