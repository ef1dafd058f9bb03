"""Optimizers, like `torch.optim`: `minimize` appends gradients and updates to a program."""

from __future__ import annotations

from opwright_nn.optimizer.adam import Adam, AdamW
from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.optimize import OPTIMIZERS, make_optimizer, optimize
from opwright_nn.optimizer.sgd import SGD, Momentum

__all__ = [
    "OPTIMIZERS",
    "SGD",
    "Adam",
    "AdamW",
    "Momentum",
    "Optimizer",
    "State",
    "make_optimizer",
    "optimize",
]
