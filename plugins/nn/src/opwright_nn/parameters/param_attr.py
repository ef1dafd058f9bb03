"""ParamAttr: the options of one parameter of a layer: name, initializer, learning rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import arguments, checks
from opwright_nn.initializer import Initializer
from opwright_nn.regularizer import Regularizer


@arguments.suggest
@dataclass(frozen=True, slots=True)
class ParamAttr:
    """How a parameter is named, initialized and trained.

    Attributes
    ----------
    name : str, optional
        By default the layer's name: ``<layer>_w_param``, ``<layer>_b_param``.
    initializer : Initializer, optional
        By default the layer's initializer.
    learning_rate : float, at least 0
        A factor for the learning rate of the optimizer.
    regularizer : Regularizer, optional
        Replaces the optimizer's regularizer.
    trainable : bool
        False excludes the parameter from training.
    """

    name: str | None = None
    initializer: Initializer | None = None
    learning_rate: float = 1.0
    regularizer: Regularizer | None = None
    trainable: bool = True

    def __post_init__(self) -> None:
        """Check each field."""
        checks.check_name("ParamAttr", self.name)
        checks.check_float("ParamAttr", "learning_rate", self.learning_rate, at_least=0.0)
        checks.check_bool("ParamAttr", "trainable", self.trainable)
        checks.check_instance("ParamAttr", "initializer", self.initializer, Initializer)
        checks.check_instance("ParamAttr", "regularizer", self.regularizer, Regularizer)


ParamLike: TypeAlias = ParamAttr | Initializer
"""A layer's argument for the options of a parameter: all options, or only an initializer."""


def check_param_attr(who: str, name: str, value: object, unless: str = "") -> ParamAttr:
    """Return `value` as a ParamAttr; for None and initializers all other fields are defaults.

    `unless` is the argument that removes the parameter, ``"bias=False"``.
    """
    if value is None:
        return ParamAttr()
    if unless:
        raise AttributeValueError(
            f"{who}: {name} must be left out with {unless}, got {value!r}; the layer "
            "does not have this parameter"
        )
    if isinstance(value, Initializer):
        return ParamAttr(initializer=value)
    if not isinstance(value, ParamAttr):
        raise AttributeTypeError(
            f"{who}: {name} must be a ParamAttr, an initializer or None, got {value!r} "
            f"({type(value).__name__}); write nn.ParamAttr(initializer=...)"
        )
    return value
