"""fc: the fully connected layer, like `torch.nn.Linear`."""

from __future__ import annotations

from functools import partial

import opwright as ow
from opwright.errors import ShapeError
from opwright_nn import checks, operators
from opwright_nn.initializer import Constant
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import begin, check_activation, weight_initializer, width
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.param_attr import ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter
from opwright_nn.precision import find_policy


@ow.transaction()
def fc(
    input: Input,
    size: int,
    *,
    bias: bool = True,
    activation: str | None = None,
    num_flatten_dims: int = 1,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``activation(x · w + b)``, with x flattened to a matrix.

    Parameters
    ----------
    input : Variable or str, [n, …]
        Axis `num_flatten_dims` and later axes are flattened into one.
    size : int, at least 1
        The width of the output.
    bias : bool
        Whether to add b.
    activation : str, optional
        The type of any operator from ``x`` to ``out``: "relu", "sigmoid", "softmax", …
    num_flatten_dims : int, at least 1
        The number of leading axes that are not flattened.
    name : str, optional
        The prefix of the layer's variable names; ``fc_0`` and so on by default.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For the weight ``<name>_w_param``, [width of x, size], and the bias ``<name>_b_param``,
        [size]. By default Xavier (four times as wide before sigmoid), Kaiming before relu and
        similar activations, and 0 for the bias.

    Returns
    -------
    Variable
        ``<name>_out``, the leading axes of x and then `size`; dtype of x.
    """
    x = find_input("fc", "input", input)
    size = checks.check_int("fc", "size", size, at_least=1)
    flat = checks.check_int("fc", "num_flatten_dims", num_flatten_dims, at_least=1)
    with_bias = checks.check_bool("fc", "bias", bias)
    weights = check_param_attr("fc", "param_attr", param_attr)
    biases = check_param_attr(
        "fc", "bias_attr", bias_attr, unless="" if with_bias else "bias=False"
    )
    kind = check_activation("fc", activation)
    layer = begin("fc", name)
    weight = make_parameter(
        "fc",
        f"{layer.name}_w_param",
        weights,
        partial(_weight_shape, x, flat, size),
        default=weight_initializer(kind),
        dtype=x.dtype,
    )
    inputs = {"x": x, "weight": weight}
    if with_bias:
        inputs["bias"] = make_parameter(
            "fc",
            f"{layer.name}_b_param",
            biases,
            lambda: (size,),
            default=Constant(),
            dtype=x.dtype,
        )
    out = _append(layer.block, inputs, {"num_flatten_dims": flat}, kind, layer.out)
    if out.shape is None:
        # The width is known without the shape of x, and the next layer needs it.
        out.shape = (*[-1] * flat, size)
    return out


def _append(
    block: ow.Block,
    inputs: dict[str, ow.Variable],
    attrs: dict[str, object],
    activation: str,
    out: str,
) -> ow.Variable:
    # The operator computes some activations in its kernel; other activations become a separate
    # operator.
    policy = find_policy()
    is_apart = policy is not None and policy.computes_in_float32(activation)
    allowed = ow.op_proto("fc").attr("activation").allowed
    if not activation or (activation in allowed and not is_apart):
        attrs["activation"] = activation
        return operators.append(block, "fc", inputs, attrs, name=out)
    linear = operators.append(block, "fc", inputs, attrs, prefix=f"{out}/linear")
    return operators.append(block, activation, {"x": linear}, name=out)


def _weight_shape(x: ow.Variable, flat: int, size: int) -> Shape:
    return _row_width(x, flat), size


def _row_width(x: ow.Variable, flat: int) -> int:
    shape = x.shape
    if shape is not None and len(shape) <= flat:
        raise ShapeError(
            f"fc: input must have more than num_flatten_dims={flat} axes, got {x!r}; give each "
            "sample at least one axis, or decrease num_flatten_dims"
        )
    return width(shape, flat)
