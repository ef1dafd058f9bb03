"""Regularizers: penalties that keep parameters small, L1 and L2 (weight decay)."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

import opwright as ow
from opwright_nn import arguments, checks, operators
from opwright_nn.foreign_names import answering

__all__ = ["L1", "L2", "Regularizer"]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__)


class Regularizer(abc.ABC):
    """A penalty on a parameter; its gradient is added to the gradient of the loss."""

    @arguments.suggest
    def __init__(self, coefficient: float) -> None:
        who = type(self).__name__
        self.coefficient = checks.check_float(who, "coefficient", coefficient, at_least=0.0)

    def append(self, parameter: ow.Variable, gradient: ow.Variable) -> ow.Variable:
        """Append the operators that add the gradient of the penalty; return the sum."""
        block = gradient.block
        derivative = self._append_derivative(block, parameter)
        attrs = {"scale": self.coefficient}
        penalty = operators.append(
            block, "scale", {"x": derivative}, attrs, prefix=f"{parameter.name}_penalty"
        )
        inputs = {"x": [gradient, penalty]}
        return operators.append(block, "add_n", inputs, prefix=f"{gradient.name}_regular")

    @abc.abstractmethod
    def _append_derivative(self, block: ow.Block, parameter: ow.Variable) -> ow.Variable: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coefficient!r})"


class L2(Regularizer):
    """``coefficient / 2 * sum(parameter^2)``; its gradient is ``coefficient * parameter``."""

    def _append_derivative(self, block: ow.Block, parameter: ow.Variable) -> ow.Variable:
        return parameter


class L1(Regularizer):
    """``coefficient * sum(|parameter|)``; its gradient is ``coefficient * sign(parameter)``."""

    def _append_derivative(self, block: ow.Block, parameter: ow.Variable) -> ow.Variable:
        return operators.append(block, "sign", {"x": parameter}, prefix=f"{parameter.name}_sign")
