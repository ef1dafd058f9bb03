"""prelu: a rectifier whose slope below zero is trained."""

from __future__ import annotations

from functools import partial

import opwright as ow
from opwright.errors import ShapeError
from opwright_nn import checks, operators
from opwright_nn.initializer import Constant
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import begin
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.param_attr import ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter


@ow.transaction()
def prelu(
    input: Input,
    per_channel: bool = False,
    *,
    name: str | None = None,
    param_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``x where x > 0, otherwise w * x``.

    He et al., Delving Deep into Rectifiers, 2015.

    Parameters
    ----------
    input : Variable or str, [n, channels, …]
        Float; with a single slope, of any shape.
    per_channel : bool
        Whether each channel has its own slope; `channels` must be known, or, in a `Model`, is taken
        from the first batch.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``, [1], or [channels, 1, …] with as many axes as a sample; by default
        0.25.
    """
    who = "prelu"
    x = find_input(who, "input", input)
    rule = partial(_weight_shape, x, checks.check_bool(who, "per_channel", per_channel))
    attr = check_param_attr(who, "param_attr", param_attr)
    layer = begin(who, name)
    weight = make_parameter(
        who, f"{layer.name}_w_param", attr, rule, default=Constant(0.25), dtype=x.dtype
    )
    return operators.append(layer.block, who, {"x": x, "weight": weight}, name=layer.out)


def _weight_shape(x: ow.Variable, per_channel: bool) -> Shape:
    if not per_channel:
        return (1,)
    if x.shape is None:
        return (-1,)
    if len(x.shape) < 2:
        raise ShapeError(
            f"prelu: input must be [n, channels, ...] for per_channel=True, got {x!r}; give each "
            "sample at least one axis"
        )
    return (x.shape[1], *[1] * (len(x.shape) - 2))
