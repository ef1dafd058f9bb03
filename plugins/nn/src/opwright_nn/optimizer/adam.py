"""Adam and its variants: AdamW, Adamax, NAdam, RAdam, Lamb and Lion."""

from __future__ import annotations

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
    """``param -= learning_rate * m / (sqrt(v) + epsilon)``, with bias-corrected moments m and v.

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

    own_states = (
        State("moment1"),
        State("moment2"),
        State("beta1_power", "beta1", scalar=True),
        State("beta2_power", "beta2", scalar=True),
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
        The fraction of the parameter that a step with learning rate 1 subtracts.
    """

    op_type = "adamw"
    elementwise = True

    _: KW_ONLY
    weight_decay: float = 0.01


@declare
class Adamax(AdamLike):
    """``param -= learning_rate * m / u``, where u is a decaying maximum of gradients.

    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 2; m is the
    bias-corrected first moment.

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon, regularizer, clip
        As in `Adam`; epsilon is added to u.
    """

    op_type = "adamax"
    elementwise = True

    learning_rate: LearningRate = LearningRate(0.002)

    own_states = (
        State("moment"),
        State("infinity_norm"),
        State("beta1_power", "beta1", scalar=True),
    )


@declare
class NAdam(AdamLike):
    """Adam with Nesterov momentum, whose coefficient rises towards ``beta1``.

    Dozat, Incorporating Nesterov Momentum into Adam, 2016.

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon, regularizer, clip
        As in `Adam`.
    momentum_decay : float, at least 0
        How fast the momentum coefficient rises.
    """

    op_type = "nadam"
    elementwise = True

    learning_rate: LearningRate = LearningRate(0.002)
    _: KW_ONLY
    momentum_decay: float = 0.004

    own_states = (
        State("moment1"),
        State("moment2"),
        State("step", 1.0, scalar=True),
        State("mu_product", 1.0, scalar=True),
    )


@declare
class RAdam(AdamLike):
    """Adam that uses only momentum until the second moment is accurate.

    Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2020.

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon, regularizer, clip
        As in `Adam`.
    """

    op_type = "radam"
    elementwise = True

    own_states = (
        State("moment1"),
        State("moment2"),
        State("step", 1.0, scalar=True),
    )


@declare
class Lamb(Adam):
    """Adam with steps scaled to the norm of the parameter, for large batches.

    You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, 2020.

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon, regularizer, clip
        As in `Adam`.
    weight_decay : float, at least 0
        The factor of the parameter that is added to the step direction.
    """

    op_type = "lamb"

    _: KW_ONLY
    epsilon: float = within(1e-6, above=0.0)
    weight_decay: float = 0.01


@declare
class Lion(Optimizer):
    """Steps of equal size for all elements, in the direction given by the sign of the momentum.

    Chen et al., Symbolic Discovery of Optimization Algorithms, 2023.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    beta1 : float in [0, 1)
        The weight of the moment in the direction of a step.
    beta2 : float in [0, 1)
        The decay rate of the moment.
    weight_decay : float, at least 0
        The fraction of the parameter that a step with learning rate 1 subtracts.
    """

    op_type = "lion"
    elementwise = True

    learning_rate: LearningRate = LearningRate(0.0001)
    _: KW_ONLY
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0

    own_states = (State("moment"),)
