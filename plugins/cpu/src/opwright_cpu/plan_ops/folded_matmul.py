"""A matrix product into which transposes and casts are folded."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.op import InferContext, OpMaker, Shape, broadcast_shapes, format_shape

DTYPES = ("float32", "float64", "bfloat16")


def _permuted(ctx: InferContext, shape: Shape, attr: str) -> Shape:
    axes: Sequence[int] = ctx.attr(attr) or range(len(shape))
    ctx.require(
        sorted(axes) == list(range(len(shape))),
        f"{attr} must be a permutation of {len(shape)} axes, got {list(axes)}",
    )
    return tuple(shape[axis] for axis in axes)


def _shape(ctx: InferContext) -> None:
    x, y = (_permuted(ctx, ctx.input(slot).shape, f"{slot}_axes") for slot in "xy")
    ctx.require(
        min(len(x), len(y)) >= 2 and x[-1] == y[-2],
        "x must be [..., m, k] and y [..., k, n] behind their permutations, got "
        f"{format_shape(x)} and {format_shape(y)}",
    )
    out = (*broadcast_shapes(x[:-2], y[:-2], ctx), x[-2], y[-1])
    axes = ctx.attr("out_axes")
    ctx.require(
        not axes or axes[-1] == len(out) - 1,
        f"out_axes must leave the columns in their place, got {list(axes)}",
    )
    ctx.set_output("out", _permuted(ctx, out, "out_axes"), ctx.attr("out_dtype"))


FOLDED_MATMUL = (
    OpMaker("cpu.folded_matmul")
    .add_comment(
        "Product of permuted arrays, out = transpose(transpose(x, x_axes) @ transpose(y, y_axes), "
        "out_axes), with stacks of matrices as matmul has them."
    )
    .add_input("x", "float, at least 2-d")
    .dtypes(*DTYPES)
    .add_input("y", "at least 2-d")
    .same_dtype_as("x")
    .add_output("out", "the axes of the product, permuted; of out_dtype")
    .dtypes(*DTYPES)
    .add_attr(
        "x_axes", list[int], "axis i of the left factor is axis x_axes[i] of x; empty: the same"
    )
    .default([])
    .add_attr("y_axes", list[int], "of the right factor, likewise")
    .default([])
    .add_attr(
        "out_axes", list[int], "axis i of out is axis out_axes[i] of the product; its last stays"
    )
    .default([])
    .add_attr("out_dtype", str, "that of x, or float32 beside bfloat16")
    .required()
    .one_of(*DTYPES)
    .dispatch_on("x")
    .build(infer_shape=_shape, plan_only=True)
)
