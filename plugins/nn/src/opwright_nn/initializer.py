"""Initializers of parameters, like `torch.nn.init`."""

from __future__ import annotations

from opwright_nn.parameters.initializer import (
    Constant,
    Initializer,
    Kaiming,
    Normal,
    Uniform,
    Xavier,
)

__all__ = ["Constant", "Initializer", "Kaiming", "Normal", "Uniform", "Xavier"]
