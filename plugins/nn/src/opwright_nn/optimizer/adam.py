"""Adam, and AdamW with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwright_nn import checks
from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.clip import GradientClip
from opwright_nn.parameters.regularizer import Regularizer
from opwright_nn.schedule import Rate


class AdamLike(Optimizer):
    """What follows Adam: ``beta1`` and ``beta2`` in [0, 1), and ``epsilon`` above 0."""

    def __init__(
        self,
        learning_rate: Rate,
        *,
        beta1: float,
        beta2: float,
        epsilon: float,
        regularizer: Regularizer | None,
        clip: GradientClip | None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        who = type(self).__name__
        self.beta1 = checks.check_float(who, "beta1", beta1, at_least=0.0, below=1.0)
        self.beta2 = checks.check_float(who, "beta2", beta2, at_least=0.0, below=1.0)
        self.epsilon = checks.check_float(who, "epsilon", epsilon, above=0.0)

    def attrs(self) -> dict[str, Any]:
        """Return ``beta1``, ``beta2`` and ``epsilon``, and what a subclass adds."""
        return {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}


class Adam(AdamLike):
    """``param -= learning_rate * m / (sqrt(v) + epsilon)``, m and v corrected running moments.

    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 1.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    beta1, beta2 : float in [0, 1)
        The decay rates of the first and second moment.
    epsilon : float, > 0
        Added to the square root of the second moment.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "adam"
    elementwise = True
    sparse_op_type = "sparse_adam"

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
        """Return both moments, and the powers for the correction of their bias."""
        return (
            State("moment1"),
            State("moment2"),
            State("beta1_power", self.beta1, scalar=True),
            State("beta2_power", self.beta2, scalar=True),
        )


class AdamW(Adam):
    """Adam with ``param -= learning_rate * weight_decay * param`` in addition to the step.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    beta1, beta2 : float in [0, 1)
        The decay rates of the first and second moment.
    epsilon : float, > 0
        Added to the square root of the second moment.
    weight_decay : float, at least 0
        The share of the parameter that a step of learning rate 1 subtracts.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "adamw"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
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
        self.weight_decay = checks.check_float("AdamW", "weight_decay", weight_decay, at_least=0.0)

    def attrs(self) -> dict[str, Any]:
        """Return those of Adam, and ``weight_decay``."""
        return super().attrs() | {"weight_decay": self.weight_decay}
