"""Gradient clipping, for the `clip` argument of optimizers, like `torch.nn.utils.clip_grad`."""

from __future__ import annotations

from opwright_nn.optimizer.clip import ClipByGlobalNorm, ClipByNorm, ClipByValue, GradientClip

__all__ = ["ClipByGlobalNorm", "ClipByNorm", "ClipByValue", "GradientClip"]
