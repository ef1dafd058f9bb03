"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.declaration import declare, within
from opwright_nn.optimizer.learning_rate import LearningRate


@declare
class SGD(Optimizer):
    """``param -= learning_rate * grad``.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    """

    op_type = "sgd"
    elementwise = True
    sparse_op_type = "sparse_sgd"

    learning_rate: LearningRate = LearningRate(0.01)


@declare
class Momentum(Optimizer):
    """``velocity = mu * velocity + grad; param -= learning_rate * velocity``.

    With `nesterov`, ``param -= learning_rate * (grad + mu * velocity)``. Polyak, 1964; Sutskever
    et al., On the importance of initialization and momentum in deep learning, 2013.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    mu : float in [0, 1)
        The share of the velocity that remains.
    nesterov : bool
        Whether to use Nesterov momentum.
    """

    op_type = "momentum"
    elementwise = True
    sparse_op_type = "sparse_momentum"

    learning_rate: LearningRate = LearningRate(0.01)
    mu: float = within(0.9, at_least=0.0, below=1.0)
    _: KW_ONLY
    nesterov: bool = False

    def states(self) -> Sequence[State]:
        """Return the velocity."""
        return (State("velocity"),)
