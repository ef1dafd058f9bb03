"""Regularizers of parameters: L1 and L2 penalties, the second known as weight decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn.foreign_names import answering
from opwright_nn.parameters.regularizer import L1, L2, Regularizer

__all__ = ["L1", "L2", "Regularizer"]

if not TYPE_CHECKING:  # type checkers shall report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__)
