"""Programs of ours as modules of PyTorch."""

from opwright_torch.module.module import Module

__all__ = ["Module"]
