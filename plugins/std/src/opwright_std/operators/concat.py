"""concat: tensors joined along an axis."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    grad_op,
    linear_in,
    merge_dims,
    normalize_axis,
)
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.split import copy_parts


def concat(x: tuple[Array, ...], out: Array, *, axis: int) -> None:
    np.concatenate(x, axis=axis, out=out)


def concat_grad(out_grad: Array, x_grad: tuple[Array, ...], *, axis: int) -> None:
    copy_parts(out_grad, x_grad, axis)


def _concat_shape(ctx: InferContext) -> None:
    """The output has the sum of the lengths along the axis; all other lengths are as in x."""
    first, *others = [meta.shape for meta in ctx.inputs("x")]
    axis = normalize_axis(ctx, ctx.attr("axis"), len(first))
    out = list(first)
    for shape in others:
        if len(shape) != len(first) or not all(
            i == axis or dims_match(a, b) for i, (a, b) in enumerate(zip(out, shape, strict=True))
        ):
            shapes = f"{format_shape(first)} and {format_shape(shape)}"
            ctx.fail(f"all x must have the same shape except for axis {axis}, got {shapes}")
        for i, dim in enumerate(shape):
            if i != axis:
                out[i] = merge_dims(out[i], dim)
            else:
                out[i] = -1 if -1 in (out[i], dim) else out[i] + dim
    ctx.set_output("out", out)


CONCAT = (
    OpMaker("concat")
    .add_comment("Join tensors along an axis.")
    .add_input(
        "x", "one or more tensors, at least 1-d, of one dtype and equal shapes except for the axis"
    )
    .as_duplicable()
    .same_dtype_as("x")
    .add_output("out", "shape of x[0] with the sum of the lengths along the axis")
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis along which to join")
    .default(0)
    .build(infer_shape=_concat_shape, gradient=grad_op("concat_grad", gradient=linear_in("x")))
)
