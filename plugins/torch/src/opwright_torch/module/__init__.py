"""opwright programs as PyTorch modules."""

from opwright_torch.module.module import Module

__all__ = ["Module"]
