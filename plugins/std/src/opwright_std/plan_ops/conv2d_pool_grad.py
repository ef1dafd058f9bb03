"""Fused gradients of a convolution and of the max pooling after it."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, dims_match, format_shape
from opwright_std.numerics.dtypes import FLOATS
from opwright_std.operators.convolution import add_convolution_attrs, infer_convolution


def _pool_grad_shape(ctx: InferContext) -> None:
    """The gradients have the shapes of x, of weight and of a bias."""
    n, filters, windows = infer_convolution(ctx)
    pooled = ctx.input("index").shape
    ctx.require(len(pooled) == 4, f"index must have 4 dimensions, got {format_shape(pooled)}")
    ctx.require_shape("grad", pooled)
    images, maxima = pooled[0], pooled[1:3]
    channels = pooled[3]
    if ctx.attr("data_format") == "NCHW":
        channels, maxima = pooled[1], pooled[2:4]
    ctx.require(dims_match(images, n), f"index must be of {n} images, got {images}")
    ctx.require(
        dims_match(channels, filters), f"index must have {filters} channels, got {channels}"
    )
    for most, got in zip(windows, maxima, strict=True):
        ctx.require(
            -1 in (most, got) or got <= most,
            f"index must have at most {most} maxima along an axis, got {got}",
        )
    shapes = {
        "x_grad": ctx.input("x").shape,
        "weight_grad": ctx.input("weight").shape,
        "bias_grad": (filters,),
    }
    for slot, shape in shapes.items():
        if ctx.has_output(slot):
            ctx.set_output(slot, shape)


def _pool_grad_maker() -> OpMaker:
    maker = OpMaker("std.conv2d_pool_grad").add_comment(
        "Gradients of max_pool2d(conv2d(x, weight) + bias) from the indices of the maxima and the "
        "gradient of the pooled images."
    )
    maker.add_input("x", "float images, as in conv2d").dtypes(*FLOATS)
    maker.add_input("weight", "[out_channels, in_channels / groups, kernel height, kernel width]")
    maker.same_dtype_as("x")
    maker.add_input("index", "index of each maximum, from max_pool2d").dtypes("int32")
    maker.add_input("grad", "gradient of the pooled images, shape of index").same_dtype_as("x")
    for slot, comment in (
        ("x_grad", "shape of x"),
        ("weight_grad", "shape of weight"),
        ("bias_grad", "[out_channels]"),
    ):
        maker.add_output(slot, comment).same_dtype_as("x").as_optional()
    return add_convolution_attrs(maker)


CONV2D_POOL_GRAD = _pool_grad_maker().build(infer_shape=_pool_grad_shape, plan_only=True)
