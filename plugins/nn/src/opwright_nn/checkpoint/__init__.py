"""Checkpoints of training runs, and weights of other frameworks."""

from __future__ import annotations

from opwright_nn.checkpoint.saving import resume, save
from opwright_nn.checkpoint.weights import load_weights, transposed

__all__ = ["load_weights", "resume", "save", "transposed"]


def __dir__() -> list[str]:
    return sorted(__all__)
