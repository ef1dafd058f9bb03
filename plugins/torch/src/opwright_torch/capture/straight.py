"""Passes gradients through ``no_grad`` modifications of tensors that require gradients."""

from __future__ import annotations

from typing import Any

import torch

_LIBRARY = torch.library.Library("opwright_torch", "FRAGMENT")
_LIBRARY.define("straight_through(Tensor value, Tensor source) -> Tensor")
_LIBRARY.impl("straight_through", lambda value, source: value.clone(), "CompositeExplicitAutograd")


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[None, torch.Tensor]:
    return None, grad


torch.library.register_autograd("opwright_torch::straight_through", _backward, lib=_LIBRARY)

straight_through = torch.ops.opwright_torch.straight_through.default
"""``straight_through(value, source)`` returns `value` and passes its gradient to `source`."""
