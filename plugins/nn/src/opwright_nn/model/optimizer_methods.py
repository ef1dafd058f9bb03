"""The methods of a Model that append an optimizer of one class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import opwright as ow
from opwright_nn import arguments
from opwright_nn.clip import GradientClip
from opwright_nn.optimizer import SGD, Adam, AdamW, Momentum, Optimizer
from opwright_nn.regularizer import Regularizer
from opwright_nn.schedule import Rate


class OptimizerMethods:
    """The part of a `Model` that has a method for each of the most used optimizers."""

    def optimize(
        self,
        optimizer: Optimizer | str,
        parameters: Iterable[ow.Variable | str] | None = None,
        **attrs: Any,
    ) -> Optimizer:
        """Append the updates of the parameters; see `Model`."""
        raise NotImplementedError

    @arguments.suggest
    def sgd(
        self,
        learning_rate: Rate = 0.01,
        *,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> Optimizer:
        """Append gradient descent, see `optimizer.SGD`."""
        return self.optimize(SGD(learning_rate, regularizer=regularizer, clip=clip))

    def momentum(self, learning_rate: Rate = 0.01, mu: float = 0.9, **options: Any) -> Optimizer:
        """Append gradient descent with momentum, see `optimizer.Momentum`."""
        return self.optimize(Momentum(learning_rate, mu, **options))

    def adam(self, learning_rate: Rate = 0.001, **options: Any) -> Optimizer:
        """Append Adam, see `optimizer.Adam`."""
        return self.optimize(Adam(learning_rate, **options))

    def adamw(self, learning_rate: Rate = 0.001, **options: Any) -> Optimizer:
        """Append AdamW, see `optimizer.AdamW`."""
        return self.optimize(AdamW(learning_rate, **options))
