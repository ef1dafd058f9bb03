"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwright_nn import checks
from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.clip import GradientClip
from opwright_nn.parameters.regularizer import Regularizer
from opwright_nn.schedule import Rate


class SGD(Optimizer):
    """``param -= learning_rate * grad``.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "sgd"
    elementwise = True
    sparse_op_type = "sparse_sgd"

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        *,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)


class Momentum(Optimizer):
    """``velocity = mu * velocity + grad; param -= learning_rate * velocity``.

    With `nesterov`, ``param -= learning_rate * (grad + mu * velocity)``. Polyak, 1964; Sutskever
    et al., On the importance of initialization and momentum in deep learning, 2013.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    mu : float in [0, 1)
        The share of the velocity that remains.
    nesterov : bool
        Whether to use Nesterov momentum.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "momentum"
    elementwise = True
    sparse_op_type = "sparse_momentum"

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        mu: float = 0.9,
        *,
        nesterov: bool = False,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        self.mu = checks.check_float("Momentum", "mu", mu, at_least=0.0, below=1.0)
        self.nesterov = checks.check_bool("Momentum", "nesterov", nesterov)

    def attrs(self) -> dict[str, Any]:
        """Return ``mu`` and ``nesterov``."""
        return {"mu": self.mu, "nesterov": self.nesterov}

    def states(self) -> Sequence[State]:
        """Return the velocity."""
        return (State("velocity"),)
