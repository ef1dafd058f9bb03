"""ParamAttr: what a layer is told about one of its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import checks
from opwright_nn.parameters.initializer import Initializer
from opwright_nn.parameters.regularizer import Regularizer


@dataclass(frozen=True, slots=True)
class ParamAttr:
    """How a parameter is named, filled and trained.

    Attributes
    ----------
    name : str, optional
        None takes the layer's: ``<layer>_w_param``, ``<layer>_b_param``.
    initializer : Initializer, optional
        None takes the layer's default.
    learning_rate : float, at least 0
        A factor on the optimizer's learning rate.
    regularizer : Regularizer, optional
        Instead of the optimizer's.
    trainable : bool
        False leaves the parameter out of `minimize`.
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


def check_param_attr(who: str, name: str, value: object, unless: str = "") -> ParamAttr:
    """Return `value` as a ParamAttr: None is one of defaults, an initializer one of its own.

    `unless` is the argument that leaves the parameter out, ``"bias=False"``, where it was given.
    """
    if value is None:
        return ParamAttr()
    if unless:
        raise AttributeValueError(
            f"{who}: {name} must be left out with {unless}, got {value!r}; there is no parameter "
            "that it could describe"
        )
    if isinstance(value, Initializer):
        return ParamAttr(initializer=value)
    if not isinstance(value, ParamAttr):
        raise AttributeTypeError(
            f"{who}: {name} must be a ParamAttr, an initializer or None, got {value!r} "
            f"({type(value).__name__}); write nn.ParamAttr(initializer=...)"
        )
    return value
