"""What came of Adam: Adamax, NAdam, RAdam, Lamb and Lion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwright_nn import checks
from opwright_nn.optimizer.adam import AdamLike
from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.clip import GradientClip
from opwright_nn.parameters.regularizer import Regularizer
from opwright_nn.schedule import Rate


class Adamax(AdamLike):
    """``param -= learning_rate * m / u``, u the largest of past gradients, decaying.

    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 2; m is the corrected
    first moment.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    beta1 : float in [0, 1)
        The decay rate of the first moment.
    beta2 : float in [0, 1)
        The decay rate of the second moment.
    epsilon : float, > 0
        Added to what is divided by.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "adamax"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.002,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            regularizer=regularizer,
            clip=clip,
        )

    def states(self) -> Sequence[State]:
        """Return the moment, the norm, and the power for the correction of the bias."""
        return (
            State("moment"),
            State("infinity_norm"),
            State("beta1_power", self.beta1, scalar=True),
        )


class NAdam(AdamLike):
    """Adam with Nesterov momentum, whose share rises towards ``beta1``.

    Dozat, Incorporating Nesterov Momentum into Adam, 2016.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    beta1 : float in [0, 1)
        The decay rate of the first moment.
    beta2 : float in [0, 1)
        The decay rate of the second moment.
    epsilon : float, > 0
        Added to what is divided by.
    momentum_decay : float, at least 0
        How fast the share of the momentum rises.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "nadam"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.002,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        momentum_decay: float = 0.004,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            regularizer=regularizer,
            clip=clip,
        )
        self.momentum_decay = checks.check_float(
            "NAdam", "momentum_decay", momentum_decay, at_least=0.0
        )

    def attrs(self) -> dict[str, Any]:
        """Return ``beta1``, ``beta2``, ``epsilon`` and ``momentum_decay``."""
        return super().attrs() | {"momentum_decay": self.momentum_decay}

    def states(self) -> Sequence[State]:
        """Return both moments, the number of the step, and the product of the shares."""
        return (
            State("moment1"),
            State("moment2"),
            State("step", 1.0, scalar=True),
            State("mu_product", 1.0, scalar=True),
        )


class RAdam(AdamLike):
    """Adam that takes steps of momentum alone until the second moment is well known.

    Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2020.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    beta1 : float in [0, 1)
        The decay rate of the first moment.
    beta2 : float in [0, 1)
        The decay rate of the second moment.
    epsilon : float, > 0
        Added to what is divided by.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "radam"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            regularizer=regularizer,
            clip=clip,
        )

    def states(self) -> Sequence[State]:
        """Return both moments and the number of the step."""
        return (
            State("moment1"),
            State("moment2"),
            State("step", 1.0, scalar=True),
        )


class Lamb(AdamLike):
    """Adam with steps scaled to the norm of the parameter, for large batches.

    You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, 2020.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    beta1 : float in [0, 1)
        The decay rate of the first moment.
    beta2 : float in [0, 1)
        The decay rate of the second moment.
    epsilon : float, > 0
        Added to what is divided by.
    weight_decay : float, at least 0
        The factor of the parameter in the direction of the step.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "lamb"

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float = 0.01,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            regularizer=regularizer,
            clip=clip,
        )
        self.weight_decay = checks.check_float("Lamb", "weight_decay", weight_decay, at_least=0.0)

    def attrs(self) -> dict[str, Any]:
        """Return ``beta1``, ``beta2``, ``epsilon`` and ``weight_decay``."""
        return super().attrs() | {"weight_decay": self.weight_decay}

    def states(self) -> Sequence[State]:
        """Return both moments, and the powers for the correction of their bias."""
        return (
            State("moment1"),
            State("moment2"),
            State("beta1_power", self.beta1, scalar=True),
            State("beta2_power", self.beta2, scalar=True),
        )


class Lion(Optimizer):
    """Steps of one size, in the direction of the sign of a momentum.

    Chen et al., Symbolic Discovery of Optimization Algorithms, 2023.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    beta1 : float in [0, 1)
        The share of the moment in the direction of a step.
    beta2 : float in [0, 1)
        The decay rate of the moment.
    weight_decay : float, at least 0
        The share of the parameter that a step of learning rate 1 subtracts.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "lion"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.0001,
        *,
        beta1: float = 0.9,
        beta2: float = 0.99,
        weight_decay: float = 0.0,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        self.beta1 = checks.check_float("Lion", "beta1", beta1, at_least=0.0, below=1.0)
        self.beta2 = checks.check_float("Lion", "beta2", beta2, at_least=0.0, below=1.0)
        self.weight_decay = checks.check_float("Lion", "weight_decay", weight_decay, at_least=0.0)

    def attrs(self) -> dict[str, Any]:
        """Return ``beta1``, ``beta2`` and ``weight_decay``."""
        return {"beta1": self.beta1, "beta2": self.beta2, "weight_decay": self.weight_decay}

    def states(self) -> Sequence[State]:
        """Return the moment."""
        return (State("moment"),)
