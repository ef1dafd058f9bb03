"""Convolutions of sequences, images and volumes, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import opwright as ow
from opwright.errors import AttributeValueError
from opwright_nn import checks, operators
from opwright_nn.initializer import Constant
from opwright_nn.layers.images import Images
from opwright_nn.layers.inputs import Input
from opwright_nn.layers.layer import Layer, begin, check_activation, weight_initializer
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.param_attr import ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter


class Options(NamedTuple):
    """The unchecked arguments that convolutions of every rank share."""

    dilations: object
    groups: object
    bias: object
    activation: object
    data_format: object
    name: object
    param_attr: object
    bias_attr: object


@ow.transaction()
def conv1d(
    input: Input,
    filters: int,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
    bias: bool = True,
    activation: str | None = None,
    data_format: str = "NCL",
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``activation(x * w + b)``, the convolution of sequences x with a window w.

    Parameters
    ----------
    input : Variable or str, [n, channels, length]
        Or [n, length, channels] with ``data_format="NLC"``, as an embedding returns it.
    filters : int, at least 1
        Channels of the output.
    kernel, strides, dilations : int, at least 1
        The size of the window, its step, and the distance between its elements.
    paddings : int, pair, "same" or "valid"
        Zeros on both sides; or before and after. A causal convolution has ``(kernel - 1, 0)``.
    groups, bias, activation, name, param_attr, bias_attr
        As in `layers.conv2d`; the weight is [filters, channels / groups, kernel].
    data_format : str
        "NCL" or "NLC". The layout of the weight is the same for both.
    """
    options = Options(dilations, groups, bias, activation, data_format, name, param_attr, bias_attr)
    return _convolve("conv1d", 1, input, filters, kernel, strides, paddings, options)


@ow.transaction()
def conv2d(
    input: Input,
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
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``activation(x * w + b)``, the convolution of images x with a window w.

    Parameters
    ----------
    input : Variable or str, [n, channels, height, width]
        Or [n, height, width, channels], see `data_format`.
    filters : int, at least 1
        Channels of the output.
    kernel : int or pair of int, at least 1
        Height and width of the window.
    strides : int or pair of int, at least 1
        The step of the window, down and across.
    paddings : int, pair, four ints, "same" or "valid"
        Zeros around the images: on all sides; vertically and horizontally; or top, bottom, left,
        right. "same" gives ``ceil(size / stride)`` windows, with an extra zero below or to
        the right if needed; "valid" is 0.
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
        The prefix of the layer's variable names; ``conv2d_0`` and so on by default.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For the weight ``<name>_w_param``, [filters, channels / groups, height, width], and the bias
        ``<name>_b_param``, [filters]. By default as in `layers.fc`.

    Returns
    -------
    Variable
        ``<name>_out``: one pixel for each window, `filters` channels; dtype of x.
    """
    options = Options(dilations, groups, bias, activation, data_format, name, param_attr, bias_attr)
    return _convolve("conv2d", 2, input, filters, kernel, strides, paddings, options)


@ow.transaction()
def conv3d(
    input: Input,
    filters: int,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
    bias: bool = True,
    activation: str | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``activation(x * w + b)``, the convolution of volumes x with a window w.

    Parameters
    ----------
    input : Variable or str, [n, channels, depth, height, width]
        Or [n, depth, height, width, channels] with ``data_format="NDHWC"``.
    filters : int, at least 1
        Channels of the output.
    kernel, strides, dilations : int or three ints, at least 1
        The size of the window, its step, and the distance between its elements.
    paddings : int, three or six ints, "same" or "valid"
        Zeros on all sides; per axis; or front, back, top, bottom, left, right.
    groups, bias, activation, name, param_attr, bias_attr
        As in `layers.conv2d`; the weight is [filters, channels / groups, depth, height,
        width].
    data_format : str
        "NCDHW" or "NDHWC". The layout of the weight is the same for both.
    """
    options = Options(dilations, groups, bias, activation, data_format, name, param_attr, bias_attr)
    return _convolve("conv3d", 3, input, filters, kernel, strides, paddings, options)


def _convolve(
    who: str,
    rank: int,
    x: object,
    filters: object,
    kernel: object,
    strides: object,
    paddings: object,
    options: Options,
) -> ow.Variable:
    layer = ConvolutionLayer(who, rank, x, filters, kernel, strides, options)
    zeros = layer.images.paddings(paddings, layer.kernel, layer.strides, layer.dilations)
    return layer.append(who, layer.images.variable, layer.make_weight(), {"paddings": zeros})


class ConvolutionLayer:
    """The parameters of a convolution, transposed or not, and the operators that it appends.

    Parameters
    ----------
    who : str
        The layer, for messages.
    rank : int
        The number of axes of a window.
    x, filters, kernel, strides : object
        Arguments of the layer, which are checked here.
    options : Options
        The other arguments, which are checked here.
    transposed : bool
        Whether the weight belongs to a transposed convolution.
    """

    def __init__(
        self,
        who: str,
        rank: int,
        x: object,
        filters: object,
        kernel: object,
        strides: object,
        options: Options,
        *,
        transposed: bool = False,
    ) -> None:
        self.images = images = Images(who, x, options.data_format, rank)
        self._filters = checks.check_int(who, "filters", filters, at_least=1)
        self.kernel = images.windows("kernel", kernel)
        self.strides = images.windows("strides", strides)
        self.dilations = images.windows("dilations", options.dilations)
        self._groups = checks.check_int(who, "groups", options.groups, at_least=1)
        with_bias = checks.check_bool(who, "bias", options.bias)
        self._activation = check_activation(who, options.activation)
        self._weights = check_param_attr(who, "param_attr", options.param_attr)
        unless = "" if with_bias else "bias=False"
        self._biases = check_param_attr(who, "bias_attr", options.bias_attr, unless=unless)
        if self._filters % self._groups:
            raise AttributeValueError(
                f"{who}: groups must divide filters={filters}, got {self._groups}; all groups have "
                "the same number of output channels"
            )
        self._who, self._with_bias, self._transposed = who, with_bias, transposed
        self.layer: Layer = begin(who, options.name)

    def make_weight(self) -> ow.Variable:
        """Return the weight, whose shape the first batch may determine."""
        sizes = (self.images, self._filters, self._groups, self.kernel, self._transposed)
        return make_parameter(
            self._who,
            f"{self.layer.name}_w_param",
            self._weights,
            partial(_weight_shape, *sizes),
            default=weight_initializer(self._activation),
            dtype=self.images.variable.dtype,
        )

    def append(
        self,
        op_type: str,
        x: ow.Variable,
        weight: ow.Variable,
        attrs: dict[str, Any],
        squeezed: int | None = None,
    ) -> ow.Variable:
        """Append the operator, a squeeze if `squeezed` is an axis, and the activation.

        `attrs` are additional attributes, which override attributes from the arguments.
        """
        attrs = {
            "strides": self.strides,
            "dilations": self.dilations,
            "groups": self._groups,
            "data_format": self.images.data_format,
        } | attrs
        inputs = {"x": x, "weight": weight} | self._bias()
        steps: list[tuple[str, dict[str, Any]]] = []
        if squeezed is not None:
            steps.append(("squeeze", {"axis": [squeezed]}))
        if self._activation:
            steps.append((self._activation, {}))
        block, out = self.layer.block, self.layer.out
        for kind, more in steps:
            before = operators.append(block, op_type, inputs, attrs, prefix=f"{out}/linear")
            op_type, inputs, attrs = kind, {"x": before}, more
        output = operators.append(block, op_type, inputs, attrs, name=out)
        if output.shape is None:
            # The channels are known without the shape of x, and the next layer needs them.
            output.shape = self.images.stored(-1, self._filters)
        return output

    def _bias(self) -> dict[str, ow.Variable]:
        """Return the bias by its slot, or an empty dict without a bias."""
        if not self._with_bias:
            return {}
        filters, dtype = self._filters, self.images.variable.dtype
        name = f"{self.layer.name}_b_param"
        bias = make_parameter(
            self._who, name, self._biases, lambda: (filters,), default=Constant(), dtype=dtype
        )
        return {"bias": bias}


def _weight_shape(
    images: Images, filters: int, groups: int, kernel: tuple[int, ...], transposed: bool
) -> Shape:
    in_group = images.group_size(groups)
    if transposed:
        return (images.shape()[1], filters // groups, *kernel)
    return (filters, in_group, *kernel)
