"""Code shared by layer functions: the name of a new layer, its activation, initial weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import opwright as ow
from opwright.errors import AttributeValueError, OperatorNotFoundError, ShapeError
from opwright_nn import checks, operators
from opwright_nn.initializer import Initializer, Kaiming, Xavier
from opwright_nn.layers.inputs import find_input

# Activations that are close to the identity above zero and close to 0 below.
_RECTIFIERS = {"relu", "relu6", "leaky_relu", "elu", "gelu", "silu", "swish", "mish"}

REDUCTIONS: Final = ("none", "mean", "sum")
"""The reductions of losses over their elements."""


class Layer(NamedTuple):
    """The block that a layer appends to, and the prefix of its variable names.

    Attributes
    ----------
    block : Block
    name : str
    out : str
        The name of the layer's output, with a number if the layer is applied more than once.
    """

    block: ow.Block
    name: str
    out: str

    def part(self, name: str) -> str:
        """Return the name of an operator's output within the layer, as `summary` groups it."""
        return self.block.program.free_name(f"{self.name}_{name}")


def begin(who: str, name: object) -> Layer:
    """Return the current block and the name of a new layer.

    Parameters
    ----------
    who : str
        The layer function, from which the default name is derived.
    name : str, optional
        The unchecked name. A layer whose name exists is applied again, with the same parameters.
    """
    own_name = checks.check_name(who, name)
    program = ow.default_main_program()
    name = own_name or program.unique_name(who)
    while not own_name and program.global_block().find_var(f"{name}_out") is not None:
        name = program.unique_name(who)  # a user has chosen this name for a layer
    return Layer(program.current_block(), name, program.free_name(f"{name}_out"))


def check_activation(who: str, activation: object) -> str:
    """Return the operator type of an activation, or "" for no activation.

    An activation can be any operator, of any plugin, with one input ``x``, one output ``out`` and
    no required attribute.
    """
    if activation is None or (isinstance(activation, str) and not activation):
        return ""
    name = checks.check_str(who, "activation", activation)
    try:
        proto = ow.op_proto(name)
    except OperatorNotFoundError as error:
        raise AttributeValueError(
            f"{who}: activation must be an operator such as 'relu', got {name!r}: {error}"
        ) from None
    inputs = [slot.name for slot in proto.inputs if not slot.optional]
    outputs = [slot.name for slot in proto.outputs if not slot.intermediate]
    if inputs != ["x"] or outputs != ["out"] or any(attr.required for attr in proto.attrs):
        raise AttributeValueError(
            f"{who}: activation must be an operator from x to out without required attributes, "
            f"got {name!r} from {', '.join(inputs) or 'nothing'} to {', '.join(outputs)}; append "
            "it after the layer instead"
        )
    return name


def weight_initializer(activation: str) -> Initializer:
    """Return the default initializer of a weight before `activation`.

    Kaiming for relu and similar activations, otherwise Xavier, scaled by the inverse of the
    activation's derivative at the origin. The factor is 4 for sigmoid: with a factor of 1, two
    sigmoid layers would shrink the differences between images by a factor of 16, and gradient
    descent would make no progress for many epochs.
    """
    if activation in _RECTIFIERS:
        return Kaiming()
    return Xavier(gain=4.0 if activation == "sigmoid" else 1.0)


def width(shape: tuple[int, ...] | None, begin: int) -> int:
    """Return the number of elements along axis `begin` and later axes, or -1 if unknown."""
    if shape is None or -1 in shape[begin:]:
        return -1
    return math.prod(shape[begin:])


def last_axis(who: str, x: ow.Variable, rank: int | None = None) -> int:
    """Return the size of a variable's last axis; the size must be known.

    Parameters
    ----------
    who : str
        The layer, for messages.
    x : Variable
        The input of the layer.
    rank : int, optional
        The number of axes that it must have.

    Raises
    ------
    ShapeError
        The size is unknown, or the variable has a wrong number of axes.
    """
    shape = x.shape
    if shape is not None and rank is not None and len(shape) != rank:
        raise ShapeError(
            f"{who}: input must have {rank} axes, of batch, time and columns, got {x!r}; an "
            "embedding of words [n, time] has them"
        )
    if not shape or shape[-1] < 0:
        raise ShapeError(
            f"{who}: the last axis of input must be known, got {x!r}; declare the shapes of "
            "inputs: model.input('words', [None, None], 'int64'), for example"
        )
    return shape[-1]


@ow.transaction()
def append_layer(
    op_type: str, inputs: Mapping[str, object], attrs: Mapping[str, Any], name: object
) -> ow.Variable:
    """Append one operator with variables as inputs, as a layer named after its type.

    Parameters
    ----------
    op_type : str
        The operator, and the layer in messages and names.
    inputs : mapping of str to object
        Variables or their names by slot, unchecked.
    attrs : mapping of str to value
        Attributes; the operator checks them.
    name : str, optional
        The unchecked prefix of its variable names.
    """
    variables = find_inputs(op_type, inputs)
    layer = begin(op_type, name)
    return operators.append(layer.block, op_type, variables, attrs, name=layer.out)


def find_inputs(who: str, inputs: Mapping[str, object]) -> dict[str, ow.Variable]:
    """Return the given variables by slot; the argument for slot ``x`` is named ``input``."""
    return {
        slot: find_input(who, "input" if slot == "x" else slot, value)
        for slot, value in inputs.items()
    }


def append_total(layer: Layer, loss: ow.Variable, reduction: str) -> ow.Variable:
    """Append the "mean" or "sum" of a loss over all its elements as the output of a layer."""
    return operators.append(layer.block, reduction, {"x": loss}, name=layer.out)
