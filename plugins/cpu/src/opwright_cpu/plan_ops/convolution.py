"""The operators that fuse convolutions with the batch normalization after them."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, format_shape

FLOATS = ("float32", "bfloat16")
FORMATS = ("NCHW", "NHWC")
ACTIVATIONS = ("relu", "sigmoid", "tanh", "relu6", "silu", "hard_swish")
"""Operators that can be fused into a convolution; native/onednn/activation.h computes them."""


def _windows(ctx: InferContext, axis: int, size: int, kernel: int) -> int:
    begin, end = ctx.attr("paddings")[2 * axis : 2 * axis + 2]
    reach = (kernel - 1) * ctx.attr("dilations")[axis] + 1
    room: int = size + begin + end - reach
    if min(size, kernel) < 0:
        return -1
    ctx.require(
        room >= 0,
        f"the kernel must fit into the padded x, got a kernel that covers {reach} elements for "
        f"{size + begin + end} elements",
    )
    return room // int(ctx.attr("strides")[axis]) + 1


def _check_images(ctx: InferContext) -> None:
    """Check the dimensions, attribute lengths and channels that the kernels assume."""
    for slot in ("x", "weight"):
        shape = ctx.input(slot).shape
        if len(shape) != 4:
            ctx.fail(f"{slot} must have 4 dimensions, got {format_shape(shape)}")
    for name, length in (("strides", 2), ("dilations", 2), ("paddings", 4)):
        given = ctx.attr(name)
        if len(given) != length:
            ctx.fail(f"{name} must be {length} numbers, got {list(given)}")
    weight, groups = ctx.input("weight").shape, ctx.attr("groups")
    if 0 in weight[2:]:
        ctx.fail(f"weight must have a kernel, got {format_shape(weight)}")
    if weight[0] % groups != 0 and weight[0] >= 0:
        ctx.fail(f"groups must divide the filters of weight {format_shape(weight)}, got {groups}")
    channels = ctx.input("x").shape[3 if ctx.attr("data_format") == "NHWC" else 1]
    ctx.require(
        -1 in (channels, weight[1]) or channels == weight[1] * groups,
        f"x must have {weight[1] * groups} channels, got {channels}",
    )


def _fused_shape(ctx: InferContext) -> None:
    _check_images(ctx)
    shape, (filters, _, *kernel) = ctx.input("x").shape, ctx.input("weight").shape
    last = ctx.attr("data_format") == "NHWC"
    sizes = shape[1:3] if last else shape[2:]
    windows = [_windows(ctx, axis, sizes[axis], kernel[axis]) for axis in range(2)]
    for slot in ("bias", "scale", "shift"):
        ctx.require_shape(slot, (filters,))
    out = (shape[0], *windows, filters) if last else (shape[0], filters, *windows)
    ctx.require_shape("residual", out)
    ctx.set_output("out", out)


def _add_conv2d_attrs(maker: OpMaker) -> None:
    maker.add_attr("strides", list[int], "distance between windows").default([1, 1])
    maker.at_least(1)
    maker.add_attr("paddings", list[int], "top, bottom, left, right").default([0, 0, 0, 0])
    maker.at_least(0)
    maker.add_attr("dilations", list[int], "distance of two taps").default([1, 1])
    maker.at_least(1)
    maker.add_attr("groups", int, "number of groups of channels").default(1)
    maker.at_least(1)
    maker.add_attr("data_format", str, "order of the axes").default("NCHW").one_of(*FORMATS)


def _fused_maker() -> OpMaker:
    maker = OpMaker("cpu.conv2d_fused").add_comment(
        "conv2d and what follows it, out = activation((conv2d(x, weight) + bias) * scale + shift + "
        "residual), all but x and weight as far as they are there."
    )
    maker.add_input("x", "float images, as in conv2d").dtypes(*FLOATS)
    maker.add_input("weight", "[out_channels, in_channels / groups, kernel height, kernel width]")
    maker.same_dtype_as("x")
    maker.add_input("bias", "[out_channels]").same_dtype_as("x").as_optional()
    for slot, comment in (("scale", "a factor for each channel"), ("shift", "added after it")):
        maker.add_input(slot, f"[out_channels], {comment}").dtypes("float32").as_optional()
    maker.add_input("residual", "shape of out, added last").same_dtype_as("x").as_optional()
    maker.add_output("out", "as conv2d gives it").same_dtype_as("x")
    _add_conv2d_attrs(maker)
    maker.add_attr("activation", str, "operator applied to the sum, none for an empty name")
    return maker.default("").one_of("", *ACTIVATIONS)


CONV2D_FUSED = _fused_maker().build(infer_shape=_fused_shape, plan_only=True)


def _fold_shape(ctx: InferContext) -> None:
    channels = ctx.input("scale").shape
    ctx.require(len(channels) == 1, f"scale must have 1 dimension, got {format_shape(channels)}")
    for slot in ("bias", "mean", "variance"):
        ctx.require_shape(slot, channels)
    for slot in ("factor", "shift", "mean_out", "variance_out"):
        ctx.set_output(slot, channels)


def _fold_maker() -> OpMaker:
    maker = OpMaker("cpu.fold_batch_norm").add_comment(
        "batch_norm without training as one product and one sum for each channel, in float32 for "
        "bfloat16, too: factor = scale / sqrt(variance + epsilon), shift = bias - mean * factor; "
        "mean and variance stay."
    )
    maker.add_input("scale", "float [channels]").dtypes(*FLOATS)
    for slot in ("bias", "mean", "variance"):
        maker.add_input(slot, "[channels]").same_dtype_as("scale")
    maker.add_output("factor", "[channels]").dtypes("float32")
    maker.add_output("shift", "[channels]").dtypes("float32")
    for slot in ("mean", "variance"):
        maker.add_output(f"{slot}_out", f"{slot}, as it was").same_dtype_as("scale").aliases(slot)
    return maker.add_attr("epsilon", float, "added to the variance").default(1e-5)


FOLD_BATCH_NORM = _fold_maker().build(
    infer_shape=_fold_shape, unchanged=lambda attrs: True, plan_only=True
)
