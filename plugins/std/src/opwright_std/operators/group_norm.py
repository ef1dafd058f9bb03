"""Normalization of channel groups of each item; instance_norm has one channel per group."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, merge_dims
from opwright_std.compositions import normalizations as normalizations_gradients
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.layer_norm import layer_norm, write_x_grad


def _channel_shape(x: Array) -> tuple[int, ...]:
    """Return the shape that aligns a vector of channels with x."""
    return (1, x.shape[1], *(1 for _ in x.shape[2:]))


def group_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    out: Array,
    mean: Array,
    inv_std: Array,
    *,
    epsilon: float,
    groups: int,
) -> None:
    rows = (mean.size, x.size // max(mean.size, 1))
    layer_norm(
        x.reshape(rows),
        None,
        None,
        out.reshape(rows),
        mean.reshape(-1),
        inv_std.reshape(-1),
        begin_norm_axis=1,
        epsilon=epsilon,
    )
    if scale is not None:
        out *= scale.reshape(_channel_shape(x))
    if bias is not None:
        out += bias.reshape(_channel_shape(x))


def instance_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    out: Array,
    mean: Array,
    inv_std: Array,
    *,
    epsilon: float,
) -> None:
    group_norm(x, scale, bias, out, mean, inv_std, epsilon=epsilon, groups=x.shape[1])


def group_norm_grad(
    x: Array,
    scale: Array | None,
    mean: Array,
    inv_std: Array,
    out_grad: Array,
    x_grad: Array | None,
    scale_grad: Array | None,
    bias_grad: Array | None,
    **_: object,
) -> None:
    axes = (0, *range(2, x.ndim))
    if bias_grad is not None:
        np.sum(out_grad, axis=axes, out=bias_grad)
    if x_grad is None and scale_grad is None:
        return
    rows = (mean.size, x.size // max(mean.size, 1))
    spread = inv_std.reshape(-1, 1)
    normal = x.reshape(rows) - mean.reshape(-1, 1)
    normal *= spread
    if scale_grad is not None:
        np.sum(out_grad * normal.reshape(x.shape), axis=axes, out=scale_grad)
    if x_grad is not None and x.size:
        inner = out_grad if scale is None else out_grad * scale.reshape(_channel_shape(x))
        write_x_grad(inner.reshape(rows), normal, spread, x_grad.reshape(rows))


instance_norm_grad = group_norm_grad


def _set_shapes(ctx: InferContext, groups: int) -> None:
    """The output has the shape of x; statistics are [n, groups], or [n, channels] for groups 0."""
    shape = ctx.input("x").shape
    if len(shape) < 2:
        ctx.fail(f"x must be [n, channels, ...], got {format_shape(shape)}")
    channels = shape[1]
    for slot in ("scale", "bias"):
        if ctx.has_input(slot):
            ctx.require_shape(slot, (channels,))
            channels = merge_dims(channels, ctx.input(slot).shape[0])
    if groups and channels >= 0 and channels % groups != 0:
        ctx.fail(f"groups must divide the {channels} channels, got groups={groups}")
    ctx.set_output("out", (shape[0], channels, *shape[2:]))
    for slot in ("mean", "inv_std"):
        ctx.set_output(slot, (shape[0], groups or channels))


def _group_norm_shape(ctx: InferContext) -> None:
    """The output has the shape of x, the statistics are [n, groups]."""
    _set_shapes(ctx, ctx.attr("groups"))


def _instance_norm_shape(ctx: InferContext) -> None:
    """The output has the shape of x, the statistics are [n, channels]."""
    _set_shapes(ctx, 0)


def _maker(op_type: str, comment: str, statistics: str) -> OpMaker:
    maker = OpMaker(op_type).add_comment(comment)
    maker.add_input("x", "float [n, channels, ...]").dtypes(*FLOATS)
    maker.add_input("scale", "[channels]; absent counts as 1").same_dtype_as("x").as_optional()
    maker.add_input("bias", "[channels]; absent counts as 0").same_dtype_as("x").as_optional()
    maker.add_output("out", "shape and dtype of x").same_dtype_as("x")
    maker.add_output("mean", statistics).same_dtype_as("x").as_intermediate()
    maker.add_output("inv_std", f"1 / sqrt(variance + epsilon), {statistics}")
    maker.same_dtype_as("x").as_intermediate()
    return maker.add_attr("epsilon", float, "added to the variance").default(1e-5).at_least(0.0)


_NEEDS = ["x", "scale", "mean", "inv_std"]

GROUP_NORM = (
    _maker(
        "group_norm",
        "Group normalization, out = (x - mean) / sqrt(variance + epsilon) * scale + bias, where "
        "mean and variance (biased: divided by the number of elements) are taken over one item and "
        "channels / groups consecutive channels. Wu and He, 2018.",
        "[n, groups]",
    )
    .add_attr("groups", int, "number of groups, a divisor of channels")
    .required()
    .at_least(1)
    .build(
        infer_shape=_group_norm_shape,
        gradient=grad_op("group_norm_grad", needs=_NEEDS, body=normalizations_gradients.group_norm),
    )
)

INSTANCE_NORM = _maker(
    "instance_norm",
    "Instance normalization, out = (x - mean) / sqrt(variance + epsilon) * scale + bias, where "
    "mean and variance (biased: divided by the number of elements) are taken over one channel of "
    "one "
    "item. "
    "Ulyanov, Vedaldi and Lempitsky, 2016.",
    "[n, channels]",
).build(
    infer_shape=_instance_norm_shape,
    gradient=grad_op(
        "instance_norm_grad", needs=_NEEDS, body=normalizations_gradients.instance_norm
    ),
)
