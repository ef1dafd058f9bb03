"""Errors for faulty models and for unsupported features."""

from __future__ import annotations

from opwright.errors import OpwrightError


class ModelError(OpwrightError, ValueError):
    """A damaged or untranslatable model; the message names the node, operator and violated rule."""


class UnsupportedError(ModelError):
    """A model with an operator, or a use of an operator, that has no counterpart in opwright."""


class ValueNeededError(ModelError):
    """Raised if a node needs the value of an input when the model is loaded.

    Attributes
    ----------
    inputs : tuple of str
        The model inputs that determine the needed value.
    """

    def __init__(self, message: str, inputs: tuple[str, ...]) -> None:
        super().__init__(message)
        self.inputs = inputs

    def __reduce__(self) -> tuple[type[ValueNeededError], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.inputs)


class DeclinedError(UnsupportedError):
    """Raised by a row for unsupported arguments; then the operator's function body is tried."""
