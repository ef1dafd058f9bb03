"""bilinear: the fully connected layer of two inputs, like `torch.nn.Bilinear`."""

from __future__ import annotations

from functools import partial

import opwright as ow
from opwright_nn import checks, operators
from opwright_nn.initializer import Constant, Xavier
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import begin
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.param_attr import ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter


@ow.transaction()
def bilinear(
    input: Input,
    y: Input,
    size: int,
    *,
    bias: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``sum(x[i] * w[k, i, j] * y[j]) + b[k]``, summed over i and j.

    Parameters
    ----------
    input, y : Variable or str, [..., columns of x] and [..., columns of y]
        Float, with the same leading axes; their columns must be known, or, in a `Model`, are taken
        from the first batch.
    size : int, at least 1
        The width of the output.
    bias : bool
        Whether to add b.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For the weight ``<name>_w_param``, [size, columns of x, columns of y], Xavier by default,
        and the bias ``<name>_b_param``, [size], 0.
    """
    who = "bilinear"
    x, other = find_input(who, "input", input), find_input(who, "y", y)
    inputs = {"x": x, "y": other}
    width = checks.check_int(who, "size", size, at_least=1)
    with_bias = checks.check_bool(who, "bias", bias)
    weights = check_param_attr(who, "param_attr", param_attr)
    biases = check_param_attr(who, "bias_attr", bias_attr, unless="" if with_bias else "bias=False")
    layer = begin(who, name)
    inputs["weight"] = make_parameter(
        who,
        f"{layer.name}_w_param",
        weights,
        partial(_weight_shape, x, other, width),
        default=Xavier(),
        dtype=x.dtype,
    )
    if with_bias:
        inputs["bias"] = make_parameter(
            who,
            f"{layer.name}_b_param",
            biases,
            lambda: (width,),
            default=Constant(),
            dtype=x.dtype,
        )
    return operators.append(layer.block, who, inputs, name=layer.out)


def _weight_shape(x: ow.Variable, y: ow.Variable, size: int) -> Shape:
    return size, _columns(x), _columns(y)


def _columns(variable: ow.Variable) -> int:
    return variable.shape[-1] if variable.shape else -1
