"""triu and tril: one triangle of a matrix, with zeros elsewhere."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.numerics.dtypes import Array

FARTHEST = 2**62
"""Diagonals beyond this are outside of every matrix; their sums with indices do not overflow."""


def triu(x: Array, out: Array, *, k: int) -> None:
    np.copyto(out, x)
    out[..., _below(x, k)] = 0


def tril(x: Array, out: Array, *, k: int) -> None:
    np.copyto(out, x)
    out[..., ~_below(x, k + 1)] = 0


def _below(x: Array, k: int) -> Array:
    """Return the mask of elements below diagonal `k` in the last two axes."""
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    below: Array = columns - rows < k
    return below


def _triangle_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    shape = ctx.input("x").shape
    ctx.require(len(shape) >= 2, f"x must have at least 2 axes, got {len(shape)}")
    ctx.set_output("out", shape)


def _triangle(op_type: str, comment: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "matrices in the last two axes, any dtype")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .add_attr("k", int, "the diagonal: 0 main, positive above it, negative below it")
        .default(0)
        .between(-FARTHEST, FARTHEST)
    )


TRIU = _triangle(
    "triu",
    "The upper triangle, out[..., i, j] = x[..., i, j] where j >= i + k, else 0, as numpy.triu.",
).build(
    infer_shape=_triangle_shape,
    gradient=chain_rule(lambda grad, g: grad.then(g.type, k=g.attr("k"))),
)

TRIL = _triangle(
    "tril",
    "The lower triangle, out[..., i, j] = x[..., i, j] where j <= i + k, else 0, as numpy.tril.",
).build(
    infer_shape=_triangle_shape,
    gradient=chain_rule(lambda grad, g: grad.then(g.type, k=g.attr("k"))),
)
