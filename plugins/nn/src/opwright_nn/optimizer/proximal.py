"""Steps with penalties that are solved for: ProximalGD, ProximalAdagrad and Ftrl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from opwright_nn import checks
from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.declaration import declare, within
from opwright_nn.optimizer.learning_rate import LearningRate


@declare
class ProximalGD(Optimizer):
    """A step of gradient descent, then the minimum of the penalties near to it.

    Duchi and Singer, Efficient Online and Batch Learning Using Forward Backward Splitting, 2009.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    l1 : float, at least 0
        The factor of the sum of absolute values.
    l2 : float, at least 0
        The factor of half the sum of squares.
    """

    op_type = "proximal_gd"
    elementwise = True

    learning_rate: LearningRate = LearningRate(0.01)
    _: KW_ONLY
    l1: float = 0.0
    l2: float = 0.0


@declare
class ProximalAdagrad(ProximalGD):
    """A step of Adagrad, then the minimum of the penalties near to it.

    Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.

    Parameters
    ----------
    learning_rate, l1, l2, regularizer, clip
        As in `ProximalGD`.
    epsilon : float, > 0
        Added to what is divided by.
    initial_squares : float, at least 0
        The sum of squares before the first step.
    """

    op_type = "proximal_adagrad"
    elementwise = True

    _: KW_ONLY
    epsilon: float = within(1e-10, above=0.0)
    initial_squares: float = within(0.1, at_least=0.0)

    def states(self) -> Sequence[State]:
        """Return the sum of squares."""
        return (State("squares", self.initial_squares),)


@declare
class Ftrl(ProximalGD):
    """Follow the regularized leader: sparse parameters of linear models.

    McMahan et al., Ad Click Prediction: a View from the Trenches, 2013. A parameter is determined
    by its gradients alone: the first step replaces what it was initialized with.

    Parameters
    ----------
    learning_rate : float, > 0, or Schedule
        The size of a step.
    l1, l2, regularizer, clip
        As in `ProximalGD`.
    initial_squares : float, at least 0
        The sum of squares before the first step.
    """

    op_type = "ftrl"
    elementwise = True

    _: KW_ONLY
    initial_squares: float = within(0.1, at_least=0.0)

    def __post_init__(self) -> None:
        """Check the arguments; a rate of 0 would divide by 0."""
        super().__post_init__()
        checks.check_float("Ftrl", "learning_rate", self.initial_learning_rate, above=0.0)

    def states(self) -> Sequence[State]:
        """Return the sum of squares, and the linear term."""
        return (
            State("squares", self.initial_squares),
            State("linear"),
        )
