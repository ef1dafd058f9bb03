"""Optimizers, like `torch.optim`: `minimize` appends gradients and updates to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn.foreign_names import answering
from opwright_nn.optimizer.accumulate import Accumulate, AccumulatingStep
from opwright_nn.optimizer.adam import Adam, Adamax, AdamW, Lamb, Lion, NAdam, RAdam
from opwright_nn.optimizer.base import Optimizer, State
from opwright_nn.optimizer.optimize import OPTIMIZERS, make_optimizer, optimize
from opwright_nn.optimizer.sgd import (
    SGD,
    Adadelta,
    Adagrad,
    Ftrl,
    Momentum,
    ProximalAdagrad,
    ProximalGD,
    RMSprop,
)
from opwright_nn.optimizer.sparse_rows import SparseRows, get_sparse_rows

__all__ = [
    "OPTIMIZERS",
    "SGD",
    "Accumulate",
    "AccumulatingStep",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lamb",
    "Lion",
    "Momentum",
    "NAdam",
    "Optimizer",
    "ProximalAdagrad",
    "ProximalGD",
    "RAdam",
    "RMSprop",
    "SparseRows",
    "State",
    "get_sparse_rows",
    "make_optimizer",
    "optimize",
]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__)
