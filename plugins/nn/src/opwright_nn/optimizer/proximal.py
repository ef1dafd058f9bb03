"""Steps with penalties that are solved for: ProximalGD, ProximalAdagrad and Ftrl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwright_nn import checks
from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.clip import GradientClip
from opwright_nn.parameters.regularizer import Regularizer
from opwright_nn.schedule import Rate


class ProximalGD(Optimizer):
    """A step of gradient descent, then the minimum of the penalties near to it.

    Duchi and Singer, Efficient Online and Batch Learning Using Forward Backward Splitting, 2009.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    l1 : float, at least 0
        The factor of the sum of absolute values.
    l2 : float, at least 0
        The factor of half the sum of squares.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "proximal_gd"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        self.l1 = checks.check_float("ProximalGD", "l1", l1, at_least=0.0)
        self.l2 = checks.check_float("ProximalGD", "l2", l2, at_least=0.0)

    def attrs(self) -> dict[str, Any]:
        """Return ``l1`` and ``l2``."""
        return {"l1": self.l1, "l2": self.l2}


class ProximalAdagrad(Optimizer):
    """A step of Adagrad, then the minimum of the penalties near to it.

    Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    l1 : float, at least 0
        The factor of the sum of absolute values.
    l2 : float, at least 0
        The factor of half the sum of squares.
    epsilon : float, > 0
        Added to what is divided by.
    initial_squares : float, at least 0
        The sum of squares before the first step.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "proximal_adagrad"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        epsilon: float = 1e-10,
        initial_squares: float = 0.1,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        self.l1 = checks.check_float("ProximalAdagrad", "l1", l1, at_least=0.0)
        self.l2 = checks.check_float("ProximalAdagrad", "l2", l2, at_least=0.0)
        self.epsilon = checks.check_float("ProximalAdagrad", "epsilon", epsilon, above=0.0)
        self.initial_squares = checks.check_float(
            "ProximalAdagrad", "initial_squares", initial_squares, at_least=0.0
        )

    def attrs(self) -> dict[str, Any]:
        """Return ``l1``, ``l2`` and ``epsilon``."""
        return {"l1": self.l1, "l2": self.l2, "epsilon": self.epsilon}

    def states(self) -> Sequence[State]:
        """Return the sum of squares."""
        return (State("squares", self.initial_squares),)


class Ftrl(Optimizer):
    """Follow the regularized leader: sparse parameters of linear models.

    McMahan et al., Ad Click Prediction: a View from the Trenches, 2013. A parameter is determined
    by its gradients alone: the first step replaces what it was initialized with.

    Parameters
    ----------
    learning_rate : float, > 0, or Schedule
        The size of a step.
    l1 : float, at least 0
        The factor of the sum of absolute values.
    l2 : float, at least 0
        The factor of half the sum of squares.
    initial_squares : float, at least 0
        The sum of squares before the first step.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "ftrl"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        initial_squares: float = 0.1,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        self.l1 = checks.check_float("Ftrl", "l1", l1, at_least=0.0)
        self.l2 = checks.check_float("Ftrl", "l2", l2, at_least=0.0)
        self.initial_squares = checks.check_float(
            "Ftrl", "initial_squares", initial_squares, at_least=0.0
        )
        checks.check_float("Ftrl", "learning_rate", self.initial_learning_rate, above=0.0)

    def attrs(self) -> dict[str, Any]:
        """Return ``l1`` and ``l2``."""
        return {"l1": self.l1, "l2": self.l2}

    def states(self) -> Sequence[State]:
        """Return the sum of squares, and the linear term."""
        return (
            State("squares", self.initial_squares),
            State("linear"),
        )
