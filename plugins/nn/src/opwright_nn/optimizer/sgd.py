"""Gradient descent: plain, with momentum, with steps scaled by past gradients, with penalties.

Adagrad, Adadelta and RMSprop scale the step of each element; ProximalGD, ProximalAdagrad and Ftrl
minimize penalties in closed form instead of following their gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from opwright_nn import checks
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
        The fraction of the velocity that is kept.
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

    own_states = (State("velocity"),)


@declare
class Adagrad(Optimizer):
    """``param -= learning_rate * grad / (sqrt(s) + epsilon)``; s is the sum of squared gradients.

    Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    epsilon : float, > 0
        Added to the divisor.
    initial_squares : float, at least 0
        The sum of squares before the first step.
    """

    op_type = "adagrad"
    elementwise = True
    sparse_op_type = "sparse_adagrad"

    learning_rate: LearningRate = LearningRate(0.01)
    _: KW_ONLY
    epsilon: float = within(1e-10, above=0.0)
    initial_squares: float = within(0.0, at_least=0.0)

    own_states = (State("squares", "initial_squares"),)


@declare
class Adadelta(Optimizer):
    """Steps scaled by the ratio of the sizes of past steps and past gradients.

    Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    rho : float in [0, 1)
        The decay rate of both means.
    epsilon : float, > 0
        Added to both means under their roots.
    """

    op_type = "adadelta"
    elementwise = True

    learning_rate: LearningRate = LearningRate(1.0)
    _: KW_ONLY
    rho: float = 0.9
    epsilon: float = within(1e-6, above=0.0)

    own_states = (
        State("mean_square"),
        State("mean_update"),
    )


@declare
class RMSprop(Optimizer):
    """``param -= learning_rate * grad / (sqrt(v) + epsilon)``; v is the mean squared gradient.

    Tieleman and Hinton, 2012; `centered` as in Graves, Generating Sequences With Recurrent Neural
    Networks, 2013.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    rho : float in [0, 1)
        The decay rate of the means.
    epsilon : float, > 0
        Added to the divisor.
    momentum : float in [0, 1)
        The fraction of the last step that is kept.
    centered : bool
        Whether v is the variance instead of the mean square.
    """

    op_type = "rmsprop"
    elementwise = True

    learning_rate: LearningRate = LearningRate(0.01)
    _: KW_ONLY
    rho: float = 0.99
    epsilon: float = within(1e-8, above=0.0)
    momentum: float = within(0.0, at_least=0.0, below=1.0)
    centered: bool = False

    def states(self) -> Sequence[State]:
        """Return the mean square, and the variables for `centered` and `momentum`."""
        states = [State("mean_square")]
        if self.centered:
            states.append(State("mean_grad"))
        if self.momentum:
            states.append(State("velocity"))
        return states


@declare
class ProximalGD(Optimizer):
    """A step of gradient descent, followed by the proximal step of the penalties.

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
    """A step of Adagrad, followed by the proximal step of the penalties.

    Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.

    Parameters
    ----------
    learning_rate, l1, l2, regularizer, clip
        As in `ProximalGD`.
    epsilon : float, > 0
        Added to the divisor.
    initial_squares : float, at least 0
        The sum of squares before the first step.
    """

    op_type = "proximal_adagrad"
    elementwise = True

    _: KW_ONLY
    epsilon: float = within(1e-10, above=0.0)
    initial_squares: float = within(0.1, at_least=0.0)

    own_states = (State("squares", "initial_squares"),)


@declare
class Ftrl(ProximalGD):
    """Follow the regularized leader (FTRL), for sparse parameters of linear models.

    McMahan et al., Ad Click Prediction: a View from the Trenches, 2013. A parameter is determined
    only by its gradients, so the first step replaces its initial value.

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
        """Check the arguments; a rate of 0 would cause a division by 0."""
        super().__post_init__()
        checks.check_float("Ftrl", "learning_rate", self.initial_learning_rate, above=0.0)

    own_states = (
        State("squares", "initial_squares"),
        State("linear"),
    )
