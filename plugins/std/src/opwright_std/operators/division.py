"""Whole quotients and what remains, element by element, as NumPy rounds them: down."""

from __future__ import annotations

import numpy as np

from opwright.op import OpDefinition, elementwise_shape, no_gradient
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.binary import binary


def mod(x: Array, y: Array, out: Array) -> None:
    with np.errstate(divide="ignore", over="ignore"):  # whole numbers have a result, see below
        np.remainder(x, y, out=out)


def floor_divide(x: Array, y: Array, out: Array) -> None:
    with np.errstate(divide="ignore", over="ignore"):
        np.floor_divide(x, y, out=out)


def _define(op_type: str, comment: str) -> OpDefinition:
    return binary(op_type, comment).build(
        infer_shape=elementwise_shape("x", "y"),
        gradient=no_gradient("it is a line with steps, whose slopes say nothing of them"),
    )


MOD = _define(
    "mod",
    "Remainder of a division that is rounded down, as numpy.remainder: it has the sign of y. "
    "Where y is 0 it is NaN, of whole numbers 0.",
)
FLOOR_DIVIDE = _define(
    "floor_divide",
    "Quotient rounded down, as numpy.floor_divide. Where y is 0 it is infinite or NaN, of whole "
    "numbers 0; the least whole number over -1 wraps around to itself.",
)
