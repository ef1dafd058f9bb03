"""Indices of nonzero elements; their number depends on the values."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from opwright.op import InferContext, OpMaker, no_gradient
from opwright_std.numerics.dtypes import Array


class Resizable(Protocol):
    """An output whose shape the kernel determines."""

    def resize(self, shape: tuple[int, ...]) -> Array:
        """Set the shape and return the array to write."""


def nonzero(x: Array, out: Resizable) -> None:
    found = np.nonzero(x)
    target = out.resize((x.ndim, len(found[0])))
    for row, positions in zip(target, found):
        row[...] = positions


def _nonzero_shape(ctx: InferContext) -> None:
    """The output has one row per axis of x, and one column per nonzero element."""
    rank = len(ctx.input("x").shape)
    ctx.require(rank, "x must have at least 1 dimension, got a scalar")
    ctx.set_output("out", (rank, -1))


NONZERO = (
    OpMaker("nonzero")
    .add_comment(
        "Indices of nonzero elements, as numpy.nonzero stacked: column i holds the index of the "
        "i-th such element along each axis, in row-major order. NaN is nonzero."
    )
    .add_input("x", "at least 1-d, any dtype")
    .add_output("out", "int64 [rank of x, n]; n is known after the kernel ran")
    .dtypes("int64")
    .dynamic_output()
    .build(infer_shape=_nonzero_shape, gradient=no_gradient("indices are not continuous"))
)
