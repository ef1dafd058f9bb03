"""Regularizers of parameters: L1 and L2 penalties, the second known as weight decay."""

from __future__ import annotations

from opwright_nn.parameters.regularizer import L1, L2, Regularizer

__all__ = ["L1", "L2", "Regularizer"]
