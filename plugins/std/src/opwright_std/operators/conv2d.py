"""Two-dimensional convolution: a kernel of weights slides over images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwright.op import (
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    grad_op,
    merge_dims,
)
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    Ints,
    add_data_format,
    axes_of,
    channels_first,
    image_dims,
    infer_windows,
    over_taps,
    pair_attr,
    set_images,
)

# Elements of the matrix that a part of the batch is turned into: 32 MB in float32.
_MAX_COLUMNS = 2**23


class _Columns:
    """Images as a matrix: below each other what one window covers, one column a window (im2col).

    Parameters
    ----------
    images, out : array [n, channels, height, width]
        What the windows slide over, and an array with one element a window.
    weight : array [out_channels, channels / groups, kernel height, kernel width]
        Gives the size of the kernel.
    """

    def __init__(
        self,
        images: Array,
        out: Array,
        weight: Array,
        strides: Ints,
        paddings: Ints,
        dilations: Ints,
        groups: int,
    ) -> None:
        kernel = weight.shape[2:]
        height, width = axes_of(images, out, kernel, strides, paddings, dilations)
        taps = over_taps(height.taps(), width.taps())
        self._taps = list(zip(np.ndindex(*kernel), taps, strict=True))
        self._shape = (images.shape[1], *kernel, *out.shape[2:])
        rows, n_windows = int(np.prod(weight.shape[1:])), int(np.prod(out.shape[2:]))
        self._matrix = (groups, rows, n_windows)
        self._images = images

    def parts(self) -> Iterator[slice]:
        """Give slices of the batch whose matrices fit into memory."""
        step = max(_MAX_COLUMNS // max(int(np.prod(self._matrix)), 1), 1)
        for begin in range(0, len(self._images), step):
            yield slice(begin, begin + step)

    def gather(self, part: slice) -> Array:
        """Return the matrices of a part of the batch, [n, groups, rows, windows]."""
        images = self._images[part]
        columns = np.zeros((len(images), *self._shape), images.dtype)
        for (i, j), (windows, elements) in self._taps:
            columns[:, :, i, j][windows] = images[elements]
        return columns.reshape(len(images), *self._matrix)

    def scatter(self, columns: Array, images: Array) -> None:
        """Write the images whose every element is the sum of those that came from it."""
        spread = columns.reshape(len(images), *self._shape)
        images[...] = 0
        for (i, j), (windows, elements) in self._taps:
            images[elements] += spread[:, :, i, j][windows]


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None,
    out: Array,
    *,
    strides: Ints,
    paddings: Ints,
    dilations: Ints,
    groups: int,
    data_format: str,
) -> None:
    images, result = channels_first(x, data_format), channels_first(out, data_format)
    columns = _Columns(images, result, weight, strides, paddings, dilations, groups)
    filters = _filters(weight, groups)
    for part in columns.parts():
        result[part] = np.matmul(filters, columns.gather(part)).reshape(result[part].shape)
    if bias is not None:
        result += bias.reshape(-1, 1, 1)


def _filters(weight: Array, groups: int) -> Array:
    """Return the weight as matrices [groups, out_channels / groups, rows]."""
    rows = int(np.prod(weight.shape[1:]))
    return weight.reshape(groups, weight.shape[0] // groups, rows)


def conv2d_grad(
    x: Array,
    weight: Array,
    out_grad: Array,
    x_grad: Array | None,
    weight_grad: Array | None,
    bias_grad: Array | None,
    *,
    strides: Ints,
    paddings: Ints,
    dilations: Ints,
    groups: int,
    data_format: str,
) -> None:
    images, slopes = channels_first(x, data_format), channels_first(out_grad, data_format)
    columns = _Columns(images, slopes, weight, strides, paddings, dilations, groups)
    filters = _filters(weight, groups)
    windows = int(np.prod(slopes.shape[2:]))
    slopes = slopes.reshape(len(slopes), groups, filters.shape[1], windows)
    if bias_grad is not None:
        np.copyto(bias_grad, slopes.sum(axis=(0, 3)).reshape(-1))
    if weight_grad is not None:
        total = np.zeros_like(filters)
        for part in columns.parts():
            turned = columns.gather(part).swapaxes(2, 3)
            total += np.matmul(slopes[part], turned).sum(axis=0)
        np.copyto(weight_grad, total.reshape(weight.shape))
    if x_grad is not None:
        result = channels_first(x_grad, data_format)
        for part in columns.parts():
            columns.scatter(np.matmul(filters.swapaxes(1, 2), slopes[part]), result[part])


def infer_convolution(ctx: InferContext) -> tuple[int, int, tuple[int, int]]:
    """Return how many images, out_channels and windows, down and across, a convolution makes.

    Raises
    ------
    ShapeError
        Where x and weight do not fit each other, or the kernel does not fit the padded images.
    """
    n, channels, *sizes = image_dims(ctx)
    weight, groups = ctx.input("weight").shape, ctx.attr("groups")
    strides, dilations = pair_attr(ctx, "strides"), pair_attr(ctx, "dilations")
    if len(weight) != 4 or 0 in weight[2:]:
        ctx.fail(
            "weight must be [out_channels, in_channels / groups, height, width] with a kernel of "
            f"at least 1 x 1, got {format_shape(weight)}"
        )
    filters, inputs, *kernel = weight
    if not dims_match(channels, inputs * groups if inputs >= 0 else -1):
        ctx.fail(
            f"x must have {inputs * groups} channels, groups={groups} times the {inputs} of weight "
            f"{format_shape(weight)}, got {channels} in x {format_shape(ctx.input('x').shape)}"
            f"{_other_format(ctx, inputs * groups)}"
        )
    if filters >= 0 and filters % groups:
        ctx.fail(f"groups must divide the {filters} out_channels of weight, got groups={groups}")
    return n, filters, infer_windows(ctx, sizes, kernel, strides, dilations)


def _conv2d_shape(ctx: InferContext) -> None:
    """The output has out_channels for channels, numbers of windows for height and width."""
    n, filters, windows = infer_convolution(ctx)
    if ctx.has_input("bias"):
        ctx.require_shape("bias", (filters,))
        filters = merge_dims(filters, ctx.input("bias").shape[0])
    set_images(ctx, "out", n, filters, windows)


def _other_format(ctx: InferContext, channels: int) -> str:
    """Return what to do where the channels seem to stand on another axis of x."""
    other, axis = ("NHWC", 3) if ctx.attr("data_format") == "NCHW" else ("NCHW", 1)
    if ctx.input("x").shape[axis] != channels:
        return ""
    return f"; for images in the order {other} say data_format={other!r}"


def add_convolution_attrs(maker: OpMaker) -> OpMaker:
    """Add what says how the windows of a convolution lie; return the maker."""
    maker.add_attr("strides", list[int], "distance of two windows: height, width")
    maker.default([1, 1]).at_least(1)
    maker.add_attr("paddings", list[int], "zeros around x: top, bottom, left, right")
    maker.default([0, 0, 0, 0]).at_least(0)
    maker.add_attr("dilations", list[int], "distance of two elements of a window: height, width")
    maker.default([1, 1]).at_least(1)
    maker.add_attr("groups", int, "parts that the channels are split into; in_channels: depthwise")
    maker.default(1).at_least(1)
    return add_data_format(maker)


def _conv2d_maker() -> OpMaker:
    maker = OpMaker("conv2d").add_comment(
        "Two-dimensional convolution (cross-correlation, the kernel is not turned): out[n, o, i, "
        "j] = bias[o] + sum over c, p, q of weight[o, c, p, q] * x[n, c0 + c, i * strides[0] - top "
        "+ p * dilations[0], j * strides[1] - left + q * dilations[1]], x being 0 outside. The "
        "channels fall into groups: output channel o reads in_channels / groups input channels "
        "from c0 = o // (out_channels / groups) * (in_channels / groups) on. weight has one layout "
        "for both orders of axes of x."
    )
    maker.add_input("x", "float images, [n, in_channels, height, width] or as data_format says")
    maker.dtypes(*FLOATS)
    maker.add_input("weight", "[out_channels, in_channels / groups, kernel height, kernel width]")
    maker.same_dtype_as("x")
    maker.add_input("bias", "[out_channels]; absent counts as 0").same_dtype_as("x").as_optional()
    maker.add_output(
        "out",
        "[n, out_channels, windows down, windows across] or as data_format says, dtype of x; "
        "windows = (size + paddings - (kernel - 1) * dilation - 1) // stride + 1",
    ).same_dtype_as("x")
    return add_convolution_attrs(maker)


CONV2D = _conv2d_maker().build(
    infer_shape=_conv2d_shape, gradient=grad_op("conv2d_grad", needs=["x", "weight"])
)
