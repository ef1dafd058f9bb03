"""add_n: the sum of several tensors of equal shape, used to accumulate gradients."""

from __future__ import annotations

import numpy as np

from opwright.op import GradientContext, InferContext, OpMaker, merge_dims, shapes_match
from opwright_std.numerics.dtypes import NUMBERS, Array


def add_n(x: tuple[Array, ...], out: Array) -> None:
    if len(x) == 1:
        np.copyto(out, x[0])
        return
    np.add(x[0], x[1], out=out)
    for term in x[2:]:
        np.add(out, term, out=out)


def _add_n_shape(ctx: InferContext) -> None:
    """The output has the common shape of all x."""
    first, *others = ctx.inputs("x")
    shape = first.shape
    for meta in others:
        if not shapes_match(shape, meta.shape):
            ctx.fail(f"all x must have the same shape, got {list(shape)} and {list(meta.shape)}")
        shape = tuple(map(merge_dims, shape, meta.shape))
    ctx.set_output("out", shape)


def _add_n_gradient(g: GradientContext) -> None:
    for index in range(len(g.inputs("x"))):
        g.set_input_grad("x", g.output_grad("out"), index)


ADD_N = (
    OpMaker("add_n")
    .add_comment("Sum of a list, out = x[0] + x[1] + ..., added in this order.")
    .add_input("x", "one or more tensors of one shape and dtype; they do not broadcast")
    .as_duplicable()
    .dtypes(*NUMBERS)
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x[0]")
    .same_dtype_as("x")
    .build(infer_shape=_add_n_shape, gradient=_add_n_gradient)
)
