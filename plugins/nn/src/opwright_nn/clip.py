"""Gradient clipping, for the `clip` argument of optimizers, like `torch.nn.utils.clip_grad`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn.foreign_names import CLIPS, answering
from opwright_nn.optimizer.clip import ClipByGlobalNorm, ClipByNorm, ClipByValue, GradientClip

__all__ = ["ClipByGlobalNorm", "ClipByNorm", "ClipByValue", "GradientClip"]

if not TYPE_CHECKING:  # type checkers shall report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, CLIPS)
