"""Transposed convolutions, which enlarge sequences, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence

import opwright as ow
from opwright.errors import AttributeValueError
from opwright_nn import checks, operators
from opwright_nn.layers.convolution import ConvolutionLayer, Options
from opwright_nn.layers.inputs import Input
from opwright_nn.parameters.param_attr import ParamLike


@ow.transaction()
def conv1d_transpose(
    input: Input,
    filters: int,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    paddings: str | int | Sequence[int] = 0,
    *,
    output_padding: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
    bias: bool = True,
    activation: str | None = None,
    data_format: str = "NCL",
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append a transposed convolution of sequences, which are treated as images of height 1.

    Parameters
    ----------
    input : Variable or str, [n, channels, length]
        Or [n, length, channels] with ``data_format="NLC"``.
    filters, kernel, strides, paddings, output_padding, dilations, groups, bias
        As in `layers.conv2d_transpose`; the weight is [channels, filters / groups, kernel].
    activation, name, param_attr, bias_attr
        As in `layers.conv2d`.
    data_format : str
        "NCL" or "NLC".
    """
    options = Options(dilations, groups, bias, activation, data_format, name, param_attr, bias_attr)
    sizes = (kernel, strides, paddings, output_padding)
    return _transpose("conv1d_transpose", 1, input, filters, sizes, options)


@ow.transaction()
def conv2d_transpose(
    input: Input,
    filters: int,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    paddings: str | int | Sequence[int] = 0,
    *,
    output_padding: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
    bias: bool = True,
    activation: str | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append the transposed convolution: each pixel adds a multiple of a window w to the output.

    `layers.conv2d` with these arguments would map the output sizes back to the sizes of x.

    Parameters
    ----------
    input : Variable or str, [n, channels, height, width]
        Or [n, height, width, channels], see `data_format`.
    filters : int, at least 1
        Channels of the output.
    kernel : int or pair of int, at least 1
        Height and width of the window.
    strides : int or pair of int, at least 1
        The distance between windows in the output.
    paddings : int, pair, four ints, "same" or "valid"
        The amount cropped from the output, with the forms of `layers.conv2d`. "same" gives ``size *
        stride``; "valid" is 0.
    output_padding : int or pair of int, at least 0
        The size added at the end, less than the stride; not with "same".
    dilations, groups, bias, activation, data_format
        As in `layers.conv2d`.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For the weight ``<name>_w_param``, [channels, filters / groups, height, width], and the bias
        ``<name>_b_param``, [filters]. By default as in `layers.fc`.
    """
    options = Options(dilations, groups, bias, activation, data_format, name, param_attr, bias_attr)
    sizes = (kernel, strides, paddings, output_padding)
    return _transpose("conv2d_transpose", 2, input, filters, sizes, options)


@ow.transaction()
def conv3d_transpose(
    input: Input,
    filters: int,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    paddings: str | int | Sequence[int] = 0,
    *,
    output_padding: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
    bias: bool = True,
    activation: str | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append the transposed convolution of volumes.

    Parameters
    ----------
    input : Variable or str, [n, channels, depth, height, width]
        Or [n, depth, height, width, channels] with ``data_format="NDHWC"``.
    filters, kernel, strides, paddings, output_padding, dilations, groups, bias
        As in `layers.conv2d_transpose`; the weight is [channels, filters / groups, depth, height,
        width].
    activation, name, param_attr, bias_attr
        As in `layers.conv2d`.
    data_format : str
        "NCDHW" or "NDHWC".
    """
    options = Options(dilations, groups, bias, activation, data_format, name, param_attr, bias_attr)
    sizes = (kernel, strides, paddings, output_padding)
    return _transpose("conv3d_transpose", 3, input, filters, sizes, options)


def _transpose(
    who: str,
    rank: int,
    x: object,
    filters: object,
    sizes: tuple[object, object, object, object],
    options: Options,
) -> ow.Variable:
    kernel, strides, paddings, output_padding = sizes
    layer = ConvolutionLayer(who, rank, x, filters, kernel, strides, options, transposed=True)
    extra = checks.check_sizes(who, "output_padding", output_padding, rank=rank, at_least=0)
    cut = checks.check_paddings(who, paddings, rank=rank)
    if cut is None:
        reach = [(k - 1) * gap + 1 for k, gap in zip(layer.kernel, layer.dilations, strict=True)]
        cut, extra = _same(who, reach, layer.strides, extra)
    weight = layer.make_weight()
    if rank == 1:
        return _append_by_images(layer, weight, cut, extra)
    attrs = {"paddings": cut, "output_padding": extra}
    return layer.append(who, layer.images.variable, weight, attrs)


def _append_by_images(
    layer: ConvolutionLayer, weight: ow.Variable, cut: Sequence[int], extra: Sequence[int]
) -> ow.Variable:
    """Append a transposed convolution of sequences, treated as images of height 1."""
    block = layer.layer.block
    is_channels_first = layer.images.data_format == "NCL"
    axis = 2 if is_channels_first else 1
    name = f"{layer.layer.out}/images"
    x = {"x": layer.images.variable}
    x_images = operators.append(block, "unsqueeze", x, {"axis": [axis]}, prefix=name)
    windows = operators.append(block, "unsqueeze", {"x": weight}, {"axis": [2]}, prefix=name)
    of_images = {
        "strides": (1, *layer.strides),
        "paddings": (0, 0, *cut),
        "dilations": (1, *layer.dilations),
        "output_padding": (0, *extra),
        "data_format": "NCHW" if is_channels_first else "NHWC",
    }
    return layer.append("conv2d_transpose", x_images, windows, of_images, squeezed=axis)


def _same(
    who: str, reach: Sequence[int], strides: Sequence[int], output_padding: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return paddings and output paddings that make each size the stride times the size of x."""
    if any(output_padding):
        raise AttributeValueError(
            f"{who}: output_padding must be 0 with paddings='same', which chooses it, got "
            f"{list(output_padding)}; write the paddings as numbers"
        )
    totals = [max(size - step, 0) for size, step in zip(reach, strides, strict=True)]
    cut = [side for total in totals for side in (total // 2, total - total // 2)]
    extra = [max(step - size, 0) for size, step in zip(reach, strides, strict=True)]
    return tuple(cut), tuple(extra)
