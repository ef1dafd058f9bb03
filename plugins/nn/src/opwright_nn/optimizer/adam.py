"""Adam, and AdamW with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.declaration import declare, within
from opwright_nn.optimizer.learning_rate import LearningRate


@declare
class AdamLike(Optimizer):
    """An optimizer with the decay rates and the epsilon of Adam."""

    learning_rate: LearningRate = LearningRate(0.001)
    _: KW_ONLY
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = within(1e-8, above=0.0)


@declare
class Adam(AdamLike):
    """``param -= learning_rate * m / (sqrt(v) + epsilon)``, m and v corrected running moments.

    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 1.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    beta1, beta2 : float in [0, 1)
        The decay rates of the first and second moment.
    epsilon : float, > 0
        Added to the square root of the second moment.
    """

    op_type = "adam"
    elementwise = True
    sparse_op_type = "sparse_adam"

    def states(self) -> Sequence[State]:
        """Return both moments, and the powers for the correction of their bias."""
        return (
            State("moment1"),
            State("moment2"),
            State("beta1_power", self.beta1, scalar=True),
            State("beta2_power", self.beta2, scalar=True),
        )


@declare
class AdamW(Adam):
    """Adam with ``param -= learning_rate * weight_decay * param`` in addition to the step.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2.

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon, regularizer, clip
        As in `Adam`.
    weight_decay : float, at least 0
        The share of the parameter that a step of learning rate 1 subtracts.
    """

    op_type = "adamw"
    elementwise = True

    _: KW_ONLY
    weight_decay: float = 0.01
