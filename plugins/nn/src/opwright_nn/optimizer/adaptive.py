"""Steps that each element scales by the gradients it has had: Adagrad, Adadelta and RMSprop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwright_nn import checks
from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.clip import GradientClip
from opwright_nn.parameters.regularizer import Regularizer
from opwright_nn.schedule import Rate


class Adagrad(Optimizer):
    """``param -= learning_rate * grad / (sqrt(s) + epsilon)``, s the sum of squared gradients.

    Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    epsilon : float, > 0
        Added to what is divided by.
    initial_squares : float, at least 0
        The sum of squares before the first step.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "adagrad"
    elementwise = True
    sparse_op_type = "sparse_adagrad"

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        *,
        epsilon: float = 1e-10,
        initial_squares: float = 0.0,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        self.epsilon = checks.check_float("Adagrad", "epsilon", epsilon, above=0.0)
        self.initial_squares = checks.check_float(
            "Adagrad", "initial_squares", initial_squares, at_least=0.0
        )

    def attrs(self) -> dict[str, Any]:
        """Return ``epsilon``."""
        return {"epsilon": self.epsilon}

    def states(self) -> Sequence[State]:
        """Return the sum of squares."""
        return (State("squares", self.initial_squares),)


class Adadelta(Optimizer):
    """Steps of the size of past steps, divided by the size of past gradients.

    Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    rho : float in [0, 1)
        The decay rate of both means.
    epsilon : float, > 0
        Added to both means under their roots.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "adadelta"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 1.0,
        *,
        rho: float = 0.9,
        epsilon: float = 1e-6,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        self.rho = checks.check_float("Adadelta", "rho", rho, at_least=0.0, below=1.0)
        self.epsilon = checks.check_float("Adadelta", "epsilon", epsilon, above=0.0)

    def attrs(self) -> dict[str, Any]:
        """Return ``rho`` and ``epsilon``."""
        return {"rho": self.rho, "epsilon": self.epsilon}

    def states(self) -> Sequence[State]:
        """Return the mean squares of gradients and of steps."""
        return (
            State("mean_square"),
            State("mean_update"),
        )


class RMSprop(Optimizer):
    """``param -= learning_rate * grad / (sqrt(v) + epsilon)``, v the mean of squared gradients.

    Tieleman and Hinton, 2012; `centered` as in Graves, Generating Sequences With Recurrent Neural
    Networks, 2013.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The size of a step.
    rho : float in [0, 1)
        The decay rate of the means.
    epsilon : float, > 0
        Added to what is divided by.
    momentum : float in [0, 1)
        The share of the last step that remains.
    centered : bool
        Whether v is the variance, not the mean square.
    regularizer : Regularizer, optional
        For every parameter without one of its own.
    clip : GradientClip, optional
        A bound for the gradients.
    """

    op_type = "rmsprop"
    elementwise = True

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        *,
        rho: float = 0.99,
        epsilon: float = 1e-8,
        momentum: float = 0.0,
        centered: bool = False,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, regularizer, clip)
        self.rho = checks.check_float("RMSprop", "rho", rho, at_least=0.0, below=1.0)
        self.epsilon = checks.check_float("RMSprop", "epsilon", epsilon, above=0.0)
        self.momentum = checks.check_float("RMSprop", "momentum", momentum, at_least=0.0, below=1.0)
        self.centered = checks.check_bool("RMSprop", "centered", centered)

    def attrs(self) -> dict[str, Any]:
        """Return ``rho``, ``epsilon``, ``momentum`` and ``centered``."""
        return {
            "rho": self.rho,
            "epsilon": self.epsilon,
            "momentum": self.momentum,
            "centered": self.centered,
        }

    def states(self) -> Sequence[State]:
        """Return the mean square, and what `centered` and `momentum` ask for."""
        states = [State("mean_square")]
        if self.centered:
            states.append(State("mean_grad"))
        if self.momentum:
            states.append(State("velocity"))
        return states
