"""Initializers of parameters, like `torch.nn.init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn.foreign_names import INITIALIZERS, answering
from opwright_nn.parameters.initializer import (
    Constant,
    Initializer,
    Kaiming,
    Normal,
    Uniform,
    Xavier,
)

__all__ = ["Constant", "Initializer", "Kaiming", "Normal", "Uniform", "Xavier"]

if not TYPE_CHECKING:  # type checkers shall report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, INITIALIZERS)
