"""Convolution over one, two or three spatial axes: a kernel of weights slides over images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    grad_op,
    merge_dims,
)
from opwright_std.compositions.selections import convolve_again
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    FORMATS,
    Ints,
    add_data_format,
    axes_of,
    axis_names,
    channels_first,
    image_dims,
    infer_windows,
    is_channels_last,
    lift,
    lift_attrs,
    over_taps,
    set_images,
    set_lines,
    side_names,
    spatial_attr,
    spatial_rank,
)

# Maximum number of elements in the im2col matrix of a batch slice: 32 MB in float32.
_MAX_COLUMNS = 2**23


class Columns:
    """Images as a matrix with one column per window (im2col).

    Parameters
    ----------
    images, out : array [n, channels, *spatial]
        The input images, and an array with one element per window.
    weight : array [out_channels, channels / groups, *kernel]
        Determines the size of the kernel.
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
        axes = axes_of(images, out, kernel, strides, paddings, dilations)
        taps = over_taps([axis.taps() for axis in axes])
        self._taps = list(zip(np.ndindex(*kernel), taps, strict=True))
        self._shape = (images.shape[1], *kernel, *out.shape[2:])
        rows, n_windows = int(np.prod(weight.shape[1:])), int(np.prod(out.shape[2:]))
        self._matrix = (groups, rows, n_windows)
        self._images = images

    def parts(self) -> Iterator[slice]:
        """Yield slices of the batch whose im2col matrices have a bounded size."""
        step = max(_MAX_COLUMNS // max(int(np.prod(self._matrix)), 1), 1)
        for begin in range(0, len(self._images), step):
            yield slice(begin, begin + step)

    def gather(self, part: slice) -> Array:
        """Return the im2col matrices of a slice of the batch, [n, groups, rows, windows]."""
        images = self._images[part]
        columns = np.zeros((len(images), *self._shape), images.dtype)
        for tap, (windows, elements) in self._taps:
            columns[(slice(None), slice(None), *tap)][windows] = images[elements]
        return columns.reshape(len(images), *self._matrix)

    def scatter(self, columns: Array, images: Array) -> None:
        """Write images whose elements are the sums of their copies in the matrix (col2im)."""
        spread = columns.reshape(len(images), *self._shape)
        images[...] = 0
        for tap, (windows, elements) in self._taps:
            images[elements] += spread[(slice(None), slice(None), *tap)][windows]


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
    columns = Columns(images, result, weight, strides, paddings, dilations, groups)
    filters = filters_of(weight, groups)
    for part in columns.parts():
        result[part] = np.matmul(filters, columns.gather(part)).reshape(result[part].shape)
    if bias is not None:
        result += bias.reshape(-1, *[1] * (result.ndim - 2))


def filters_of(weight: Array, groups: int) -> Array:
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
    images, gradients = channels_first(x, data_format), channels_first(out_grad, data_format)
    columns = Columns(images, gradients, weight, strides, paddings, dilations, groups)
    filters = filters_of(weight, groups)
    windows = int(np.prod(gradients.shape[2:]))
    gradients = gradients.reshape(len(gradients), groups, filters.shape[1], windows)
    if bias_grad is not None:
        np.copyto(bias_grad, gradients.sum(axis=(0, 3)).reshape(-1))
    if weight_grad is not None:
        total = np.zeros_like(filters)
        for part in columns.parts():
            turned = columns.gather(part).swapaxes(2, 3)
            total += np.matmul(gradients[part], turned).sum(axis=0)
        np.copyto(weight_grad, total.reshape(weight.shape))
    if x_grad is not None:
        result = channels_first(x_grad, data_format)
        for part in columns.parts():
            columns.scatter(np.matmul(filters.swapaxes(1, 2), gradients[part]), result[part])


conv3d, conv3d_grad = conv2d, conv2d_grad


def infer_convolution(ctx: InferContext) -> tuple[int, int, Ints]:
    """Return the batch, out_channels and windows per axis of a convolution.

    Raises
    ------
    ShapeError
        If x and weight do not fit, or the kernel does not fit into the padded images.
    """
    n, channels, *sizes = image_dims(ctx)
    weight, groups = ctx.input("weight").shape, ctx.attr("groups")
    strides, dilations = spatial_attr(ctx, "strides"), spatial_attr(ctx, "dilations")
    require_kernel(ctx, "out_channels, in_channels / groups")
    filters, inputs, *kernel = weight
    if not dims_match(channels, inputs * groups if inputs >= 0 else -1):
        ctx.fail(
            f"x must have {inputs * groups} channels, groups={groups} times the {inputs} of weight "
            f"{format_shape(weight)}, got {channels} in x {format_shape(ctx.input('x').shape)}"
            f"{other_format(ctx, inputs * groups)}"
        )
    if filters >= 0 and filters % groups != 0:
        ctx.fail(f"groups must divide the {filters} out_channels of weight, got groups={groups}")
    return n, filters, infer_windows(ctx, sizes, kernel, strides, dilations)


def require_kernel(ctx: InferContext, channels: str) -> None:
    """Fail if the rank of weight differs from the rank of the images, or its kernel is empty."""
    rank, weight = spatial_rank(ctx.attr("data_format")), ctx.input("weight").shape
    if len(weight) != 2 + rank or 0 in weight[2:]:
        ctx.fail(
            f"weight must be [{channels}, {axis_names(rank)}] with a kernel of "
            f"at least {' x '.join('1' * rank)}, got {format_shape(weight)}"
        )


def _convolution_shape(ctx: InferContext) -> None:
    """The output has out_channels channels and, along each spatial axis, an element per window."""
    n, filters, windows = infer_convolution(ctx)
    if ctx.has_input("bias"):
        ctx.require_shape("bias", (filters,))
        filters = merge_dims(filters, ctx.input("bias").shape[0])
    set_images(ctx, "out", n, filters, windows)


def other_format(ctx: InferContext, channels: int) -> str:
    """Return a hint for the error if the channels seem to be on a different axis of x."""
    given = ctx.attr("data_format")
    formats = FORMATS[spatial_rank(given)]
    axis = 1 if is_channels_last(given) else len(formats[0]) - 1
    other = formats[1 - formats.index(given)]
    if ctx.input("x").shape[axis] != channels:
        return ""
    return f"; for images in the order {other} set data_format={other!r}"


def add_convolution_attrs(maker: OpMaker, rank: int = 2) -> OpMaker:
    """Add the attributes for the windows of a convolution; return `maker`."""
    names = axis_names(rank)
    maker.add_attr("strides", list[int], f"distance between windows: {names}", rank)
    maker.default([1] * rank).at_least(1)
    maker.add_attr("paddings", list[int], f"zeros around x: {side_names(rank)}", 2 * rank)
    maker.default([0, 0] * rank).at_least(0)
    maker.add_attr("dilations", list[int], f"distance between elements of a window: {names}", rank)
    maker.default([1] * rank).at_least(1)
    maker.add_attr("groups", int, "number of groups of channels; in_channels: depthwise")
    maker.default(1).at_least(1)
    return add_data_format(maker, rank)


_RANKS = {1: "One", 2: "Two", 3: "Three"}
_WINDOWS, _TAPS = ("i", "j", "k"), ("p", "q", "r")


def _formula(rank: int) -> str:
    """Return the formula of a convolution over `rank` axes in NumPy's indexing."""
    befores = side_names(rank).split(", ")[::2]
    windows, taps = ", ".join(_WINDOWS[:rank]), ", ".join(_TAPS[:rank])
    places = ", ".join(
        f"{_WINDOWS[a]} * strides[{a}] - {befores[a]} + {_TAPS[a]} * dilations[{a}]"
        for a in range(rank)
    )
    return (
        f"out[n, o, {windows}] = bias[o] + sum over c, {taps} of weight[o, c, {taps}] * "
        f"x[n, c0 + c, {places}], x being 0 outside"
    )


def _convolution_maker(rank: int) -> OpMaker:
    names = axis_names(rank)
    maker = OpMaker(f"conv{rank}d").add_comment(
        f"{_RANKS[rank]}-dimensional convolution (cross-correlation, the kernel is not flipped): "
        f"{_formula(rank)}. The channels are split into groups: output channel o reads "
        f"in_channels / groups input channels from c0 = o // (out_channels / groups) * "
        f"(in_channels / groups) on. The layout of weight is the same for both axis orders of x."
    )
    maker.add_input("x", f"float images, [n, in_channels, {names}] or per data_format")
    maker.dtypes(*FLOATS)
    maker.add_input("weight", f"[out_channels, in_channels / groups, kernel {names}]")
    maker.same_dtype_as("x")
    maker.add_input("bias", "[out_channels]; absent counts as 0").same_dtype_as("x").as_optional()
    maker.add_output(
        "out",
        "[n, out_channels, windows along each spatial axis] or per data_format, dtype of x; "
        "windows = (size + paddings - (kernel - 1) * dilation - 1) // stride + 1",
    ).same_dtype_as("x")
    return add_convolution_attrs(maker, rank)


def convolve_lines(b: BodyContext) -> None:
    """Convolve 1-d inputs as images of height 1."""
    weight = b.emit("unsqueeze", {"x": b.input("weight")}, attrs={"axis": [2]})
    inputs = {**lift(b, "x"), "weight": weight, "bias": b.input("bias")}
    set_lines(b, b.emit(b.type.replace("1d", "2d"), inputs, attrs=lift_attrs(b)))


CONV1D = _convolution_maker(1).build(infer_shape=_convolution_shape, body=convolve_lines)

CONV2D = _convolution_maker(2).build(
    infer_shape=_convolution_shape,
    gradient=grad_op("conv2d_grad", needs=["x", "weight"], gradient=convolve_again),
)

CONV3D = _convolution_maker(3).build(
    infer_shape=_convolution_shape,
    gradient=grad_op("conv3d_grad", needs=["x", "weight"], gradient=convolve_again),
)
