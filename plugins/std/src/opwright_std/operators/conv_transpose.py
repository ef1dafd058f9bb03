"""Transposed convolution: the gradient of a convolution with respect to its input."""

from __future__ import annotations

from math import prod

import numpy as np

from opwright.op import (
    GradientContext,
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    merge_dims,
)
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    Ints,
    add_data_format,
    axis_names,
    channels_first,
    image_dims,
    is_channels_last,
    paddings_attr,
    set_images,
    side_names,
    spatial_attr,
)
from opwright_std.operators.convolution import (
    Columns,
    convolve_lines,
    filters_of,
    other_format,
    require_kernel,
)

_MAX_SIZE = 2**31 - 1


def conv2d_transpose(
    x: Array,
    weight: Array,
    bias: Array | None,
    out: Array,
    *,
    strides: Ints,
    paddings: Ints,
    dilations: Ints,
    output_padding: Ints,
    groups: int,
    data_format: str,
) -> None:
    windows, result = channels_first(x, data_format), channels_first(out, data_format)
    columns = Columns(result, windows, weight, strides, paddings, dilations, groups)
    filters = filters_of(weight, groups).swapaxes(1, 2)
    per_group, n_windows = weight.shape[0] // groups, prod(windows.shape[2:])
    flat = windows.reshape(len(x), groups, per_group, n_windows)
    for part in columns.parts():
        columns.scatter(np.matmul(filters, flat[part]), result[part])
    if bias is not None:
        result += bias.reshape(-1, *[1] * (result.ndim - 2))


conv3d_transpose = conv2d_transpose


def _transpose_shape(ctx: InferContext) -> None:
    """The output has the image sizes that a convolution maps to the sizes of x."""
    n, channels, *sizes = image_dims(ctx)
    require_kernel(ctx, "in_channels, out_channels / groups")
    weight, groups = ctx.input("weight").shape, ctx.attr("groups")
    inputs, filters, *kernel = weight
    if not dims_match(channels, inputs):
        ctx.fail(
            f"x must have {inputs} channels, as weight {format_shape(weight)}, got "
            f"{channels} in x {format_shape(ctx.input('x').shape)}{other_format(ctx, inputs)}"
        )
    if inputs >= 0 and inputs % groups != 0:
        ctx.fail(f"groups must divide the {inputs} in_channels of weight, got groups={groups}")
    filters = filters * groups if filters >= 0 else -1
    if ctx.has_input("bias"):
        ctx.require_shape("bias", (filters,))
        filters = merge_dims(filters, ctx.input("bias").shape[0])
    set_images(ctx, "out", n, filters, _spread_sizes(ctx, sizes, kernel))


def _spread_sizes(ctx: InferContext, sizes: list[int], kernel: list[int]) -> list[int]:
    strides, dilations = spatial_attr(ctx, "strides"), spatial_attr(ctx, "dilations")
    extra, paddings = spatial_attr(ctx, "output_padding"), paddings_attr(ctx)
    spread = []
    for i, name in enumerate(axis_names(len(sizes)).split(", ")):
        if extra[i] >= max(strides[i], dilations[i]):
            ctx.fail(
                f"output_padding must be smaller than the stride or the dilation, got {extra[i]} "
                f"for a stride of {strides[i]} and a dilation of {dilations[i]} along the {name}"
            )
        if min(sizes[i], kernel[i]) < 0:
            spread.append(-1)
            continue
        if sizes[i] == 0:
            ctx.fail(f"the {name} of x must be at least 1, got 0")
        reach = (kernel[i] - 1) * dilations[i] + 1
        cut = paddings[2 * i] + paddings[2 * i + 1]
        size = (sizes[i] - 1) * strides[i] + reach + extra[i] - cut
        if not 1 <= size <= _MAX_SIZE:
            ctx.fail(
                f"the {name} of out must be in [1, {_MAX_SIZE}], got {size} from {sizes[i]} "
                f"windows of {reach}, {strides[i]} apart, minus {cut} of paddings"
            )
        spread.append(size)
    return spread


def _transpose_gradient(g: GradientContext) -> None:
    """The operator is the gradient of a convolution, so its gradients are convolutions."""
    (grad,) = g.filled_output_grads("out")
    rank = len(g.attr("strides"))
    names = ("strides", "paddings", "dilations", "groups", "data_format")
    attrs = {name: g.attr(name) for name in names}
    weight = g.input("weight")
    if g.wants("x"):
        x_grad = g.emit(f"conv{rank}d", {"x": grad, "weight": weight}, attrs=attrs)
        g.set_input_grad("x", _with_windows(g, x_grad, -1))
    if g.wants("weight"):
        inputs = {"x": grad, "weight": weight, "out_grad": _with_windows(g, g.input("x") or "", 1)}
        weight_grad = g.emit(f"conv{rank}d_grad", inputs, {"weight_grad": 1}, attrs)
        g.set_input_grad("weight", weight_grad)
    if g.wants("bias"):
        channels = rank + 1 if is_channels_last(g.attr("data_format")) else 1
        others = [axis for axis in range(rank + 2) if axis != channels]
        g.set_input_grad("bias", g.emit("sum", {"x": grad}, attrs={"axis": others}))


def _with_windows(g: GradientContext, name: str, sign: int) -> str:
    """Add (sign 1) or crop (sign -1) the extra windows of output_padding."""
    pairs = zip(g.attr("output_padding"), g.attr("strides"), strict=True)
    added = [extra // stride for extra, stride in pairs]
    if not any(added):
        return name
    sides = [side for count in added for side in (0, sign * count)]
    last = is_channels_last(g.attr("data_format"))
    paddings = [0, 0, *sides, 0, 0] if last else [0, 0, 0, 0, *sides]
    return g.emit("pad", {"x": name}, attrs={"paddings": paddings})


def _transpose_maker(rank: int) -> OpMaker:
    names = axis_names(rank)
    maker = OpMaker(f"conv{rank}d_transpose").add_comment(
        f"Transposed convolution: the gradient of conv{rank}d with respect to its input, with x "
        f"as the gradient of its output, plus a bias. Each element of x adds a multiple of the "
        f"kernel to out, `strides` apart; paddings crop the borders of that sum, and "
        f"output_padding extends its end, since several sizes of out can have the size of x."
    )
    maker.add_input("x", f"float images, [n, in_channels, {names}] or per data_format")
    maker.dtypes(*FLOATS)
    maker.add_input("weight", f"[in_channels, out_channels / groups, kernel {names}]")
    maker.same_dtype_as("x")
    maker.add_input("bias", "[out_channels]; absent counts as 0").same_dtype_as("x").as_optional()
    maker.add_output(
        "out",
        f"[n, out_channels, {names}] or per data_format, dtype of x; size = (size of x - 1) * "
        "stride + (kernel - 1) * dilation + 1 + output_padding - paddings",
    ).same_dtype_as("x")
    maker.add_attr("strides", list[int], f"distance between kernels in out: {names}", rank)
    maker.default([1] * rank).at_least(1)
    maker.add_attr("paddings", list[int], f"cropped from out: {side_names(rank)}", 2 * rank)
    maker.default([0, 0] * rank).at_least(0)
    maker.add_attr("dilations", list[int], f"distance between elements of a kernel: {names}", rank)
    maker.default([1] * rank).at_least(1)
    maker.add_attr(
        "output_padding",
        list[int],
        f"added at the end, less than the stride or the dilation: {names}",
        rank,
    )
    maker.default([0] * rank).at_least(0)
    maker.add_attr("groups", int, "number of groups of channels")
    maker.default(1).at_least(1)
    return add_data_format(maker, rank)


CONV1D_TRANSPOSE = _transpose_maker(1).build(infer_shape=_transpose_shape, body=convolve_lines)

CONV2D_TRANSPOSE = _transpose_maker(2).build(
    infer_shape=_transpose_shape, gradient=_transpose_gradient
)

CONV3D_TRANSPOSE = _transpose_maker(3).build(
    infer_shape=_transpose_shape, gradient=_transpose_gradient
)
