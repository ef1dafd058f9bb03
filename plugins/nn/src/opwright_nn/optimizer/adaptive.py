"""Steps that each element scales by the gradients it has had: Adagrad, Adadelta and RMSprop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.declaration import declare, within
from opwright_nn.optimizer.learning_rate import LearningRate


@declare
class Adagrad(Optimizer):
    """``param -= learning_rate * grad / (sqrt(s) + epsilon)``, s the sum of squared gradients.

    Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    epsilon : float, > 0
        Added to what is divided by.
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

    def states(self) -> Sequence[State]:
        """Return the sum of squares."""
        return (State("squares", self.initial_squares),)


@declare
class Adadelta(Optimizer):
    """Steps of the size of past steps, divided by the size of past gradients.

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

    def states(self) -> Sequence[State]:
        """Return the mean squares of gradients and of steps."""
        return (
            State("mean_square"),
            State("mean_update"),
        )


@declare
class RMSprop(Optimizer):
    """``param -= learning_rate * grad / (sqrt(v) + epsilon)``, v the mean of squared gradients.

    Tieleman and Hinton, 2012; `centered` as in Graves, Generating Sequences With Recurrent Neural
    Networks, 2013.

    Parameters
    ----------
    learning_rate, regularizer, clip
        As in `Optimizer`.
    rho : float in [0, 1)
        The decay rate of the means.
    epsilon : float, > 0
        Added to what is divided by.
    momentum : float in [0, 1)
        The share of the last step that remains.
    centered : bool
        Whether v is the variance, not the mean square.
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
        """Return the mean square, and what `centered` and `momentum` ask for."""
        states = [State("mean_square")]
        if self.centered:
            states.append(State("mean_grad"))
        if self.momentum:
            states.append(State("velocity"))
        return states
