"""A fault of a model, or an unsupported part of it."""

from __future__ import annotations

from opwright.errors import OpwrightError


class ModelError(OpwrightError, ValueError):
    """A damaged or untranslatable model: node, operator, and the violated rule."""


class UnsupportedError(ModelError):
    """A model with an operator, or a use of an operator, without a counterpart."""


class ValueNeededError(ModelError):
    """A node whose inputs must be known when the model is loaded.

    Attributes
    ----------
    inputs : tuple of str
        The inputs of the model that its value depends on.
    """

    def __init__(self, message: str, inputs: tuple[str, ...]) -> None:
        super().__init__(message)
        self.inputs = inputs

    def __reduce__(self) -> tuple[type[ValueNeededError], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.inputs)


class DeclinedError(UnsupportedError):
    """Raised by a row for unsupported arguments; the function body of the operator is tried."""
