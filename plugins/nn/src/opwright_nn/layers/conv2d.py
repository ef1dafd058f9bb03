"""conv2d: convolution of images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import opwright as ow
from opwright.errors import AttributeValueError, ShapeError
from opwright_nn import checks, operators
from opwright_nn.layers.images import Images
from opwright_nn.layers.layer import Layer, begin, check_activation, weight_initializer
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.initializer import Constant
from opwright_nn.parameters.param_attr import ParamAttr, check_param_attr
from opwright_nn.parameters.parameter import make_parameter


@ow.transaction()
def conv2d(
    x: ow.Variable,
    filters: int,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
    bias: bool = True,
    activation: str | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
    param_attr: ParamAttr | None = None,
    bias_attr: ParamAttr | None = None,
) -> ow.Variable:
    """Append ``activation(x * w + b)``, the convolution of images x with a window w.

    Parameters
    ----------
    x : Variable, [n, channels, height, width]
        Or [n, height, width, channels], see `data_format`.
    filters : int, at least 1
        Channels of the output.
    kernel : int or pair of int, at least 1
        Height and width of the window.
    strides : int or pair of int, at least 1
        The step of the window, down and across.
    paddings : int, pair, four ints, "same" or "valid"
        Zeros around the images: on all sides; above and below, left and right; or top, bottom,
        left, right. "same" gives ``ceil(size / stride)`` windows, with an odd zero below or to the
        right; "valid" is 0.
    dilations : int or pair of int, at least 1
        The distance between elements of the window.
    groups : int, at least 1
        Groups of channels that are convolved separately; a depthwise convolution has one for each
        channel.
    bias : bool
        Whether to add b.
    activation : str, optional
        The type of any operator from ``x`` to ``out``: "relu", "sigmoid", …
    data_format : str
        "NCHW" or "NHWC". The layout of the weight is the same for both.
    name : str, optional
        The prefix of the names of its variables; ``conv2d_0`` and so on by default.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For the weight ``<name>_w_param``, [filters, channels / groups, height, width], and the bias
        ``<name>_b_param``, [filters]. By default as in `layers.fc`.

    Returns
    -------
    Variable
        ``<name>_out``: one pixel for each window, `filters` channels; dtype of x.
    """
    who = "conv2d"
    images = Images(who, x, data_format)
    filters = checks.check_int(who, "filters", filters, at_least=1)
    size = checks.check_pair(who, "kernel", kernel, at_least=1)
    steps = checks.check_pair(who, "strides", strides, at_least=1)
    zeros = checks.check_paddings(who, paddings)
    gaps = checks.check_pair(who, "dilations", dilations, at_least=1)
    groups = checks.check_int(who, "groups", groups, at_least=1)
    with_bias = checks.check_bool(who, "bias", bias)
    kind = check_activation(who, activation)
    weights = check_param_attr(who, "param_attr", param_attr)
    biases = check_param_attr(who, "bias_attr", bias_attr, unless="" if with_bias else "bias=False")
    if filters % groups:
        raise AttributeValueError(
            f"conv2d: groups must divide filters={filters}, got {groups}; all groups have the same "
            "number of output channels"
        )
    attrs = {
        "strides": steps,
        "paddings": images.paddings(zeros, size, steps, gaps),
        "dilations": gaps,
        "groups": groups,
        "data_format": images.data_format,
    }
    layer = begin(who, name)
    inputs = {
        "x": images.variable,
        "weight": make_parameter(
            who,
            f"{layer.name}_w_param",
            weights,
            partial(_weight_shape, images, filters, groups, size),
            default=weight_initializer(kind),
            dtype=images.variable.dtype,
        ),
    }
    if with_bias:
        inputs["bias"] = _make_bias(layer.name, biases, filters, images.variable.dtype)
    out = _append(layer, inputs, attrs, kind)
    if out.shape is None:
        # This much is known without the shape of x, and the next layer needs the channels.
        out.shape = images.stored(-1, filters, -1, -1)
    return out


def _append(
    layer: Layer, inputs: dict[str, ow.Variable], attrs: dict[str, object], activation: str
) -> ow.Variable:
    if not activation:
        return operators.append(layer.block, "conv2d", inputs, attrs, name=layer.out)
    linear = operators.append(layer.block, "conv2d", inputs, attrs, prefix=f"{layer.out}/linear")
    return operators.append(layer.block, activation, {"x": linear}, name=layer.out)


def _make_bias(layer: str, attr: ParamAttr, filters: int, dtype: str) -> ow.Variable:
    name = f"{layer}_b_param"
    return make_parameter("conv2d", name, attr, lambda: (filters,), default=Constant(), dtype=dtype)


def _weight_shape(images: Images, filters: int, groups: int, kernel: tuple[int, int]) -> Shape:
    channels = images.shape()[1]
    if channels > 0 and channels % groups:
        raise ShapeError(
            f"conv2d: groups must divide the {channels} channels of {images.variable!r}, got "
            f"{groups}; all groups have the same number of input channels"
        )
    return (filters, channels if channels < 0 else channels // groups, *kernel)
