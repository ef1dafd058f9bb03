"""What layer functions share: where they append, how they name, how a weight is filled."""

from __future__ import annotations

import math
from typing import NamedTuple

import opwright as ow
from opwright.errors import AttributeValueError, OperatorNotFoundError
from opwright_nn import checks
from opwright_nn.parameters.initializer import Initializer, Kaiming, Xavier

# Activations that are about the identity above zero and about nothing below.
_RECTIFIERS = {"relu", "relu6", "leaky_relu", "elu", "gelu", "silu", "swish", "mish"}


class Layer(NamedTuple):
    """Where a layer appends its operators, and what the names of its variables begin with."""

    block: ow.Block
    name: str

    @property
    def out(self) -> str:
        """The name of the layer's output."""
        return f"{self.name}_out"


def begin(who: str, name: object) -> Layer:
    """Return the current block and the name of a new layer.

    Parameters
    ----------
    who : str
        The layer function; made names begin with it.
    name : str, optional
        As the user gave it.
    """
    given = checks.check_name(who, name)
    program = ow.default_main_program()
    return Layer(program.current_block(), given or program.unique_name(who))


def check_activation(who: str, activation: object) -> str:
    """Return the operator type of an activation, "" for none.

    Any operator with one input ``x``, one output ``out`` and no attribute that must be given
    serves, whoever brings it.
    """
    if activation is None or activation == "":
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
            "it behind the layer instead"
        )
    return name


def weight_initializer(activation: str) -> Initializer:
    """Return what fills a weight whose products go through `activation`.

    Xavier, scaled by the inverse of the activation's slope at the origin: with 1 instead of 4 two
    sigmoid layers shrink the differences between images sixteen-fold, and plain gradient descent
    stays at chance for many epochs. Kaiming for the rectifiers.
    """
    if activation in _RECTIFIERS:
        return Kaiming()
    return Xavier(gain=4.0 if activation == "sigmoid" else 1.0)


def width(shape: tuple[int, ...] | None, begin: int) -> int:
    """Return the number of elements of the axes from `begin` on, -1 where it is not known."""
    if shape is None or -1 in shape[begin:]:
        return -1
    return math.prod(shape[begin:])
