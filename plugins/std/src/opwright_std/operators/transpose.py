"""transpose: permute the axes."""

from __future__ import annotations

import numpy as np

from opwright.op import GradientContext, InferContext, OpMaker, normalize_axes
from opwright_std.numerics.dtypes import Array


def transpose(x: Array, out: Array, *, axes: tuple[int, ...]) -> None:
    np.copyto(out, x.transpose(axes or None))


def _transpose_shape(ctx: InferContext) -> None:
    """The output has the axes of x in the given order, reversed by default."""
    shape, axes = ctx.input("x").shape, ctx.attr("axes")
    if axes and len(axes) != len(shape):
        ctx.fail(f"axes must name all axes of a {len(shape)}-d input, got axes={list(axes)}")
    order = normalize_axes(ctx, axes, len(shape), "axes") if axes else range(len(shape))[::-1]
    ctx.set_output("out", [shape[axis] for axis in order])


def _transpose_gradient(g: GradientContext) -> None:
    axes = g.attr("axes")
    rank = len(axes)
    inverse = sorted(range(rank), key=lambda i: axes[i] % rank)
    grad = g.emit("transpose", {"x": g.output_grad("out")}, attrs={"axes": inverse})
    g.set_input_grad("x", grad)


TRANSPOSE = (
    OpMaker("transpose")
    .add_comment("Permutes axes: axis i of out is axis axes[i] of x.")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "permuted shape, dtype of x")
    .same_dtype_as("x")
    .add_attr("axes", list[int], "a permutation of the axes; none given: reversed")
    .default([])
    .build(infer_shape=_transpose_shape, gradient=_transpose_gradient)
)
