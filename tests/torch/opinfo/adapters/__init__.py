"""PyTorch operators as calls of ``opwright.ops``, by their names in OpInfo.

An adapter renames and moves arguments, chooses attributes and makes constants; only opwright
operators compute.
"""

from __future__ import annotations

from typing import Final

from . import (
    attention,
    calculus,
    creation,
    embeddings,
    indexing,
    joining,
    linear_algebra,
    losses,
    masked,
    networks,
    normalization,
    ordering,
    pointwise,
    pooling,
    reductions,
    shapes,
)
from .arguments import Adapter, RandomError, UnmappedError

_MODULES = (
    creation,
    embeddings,
    indexing,
    linear_algebra,
    losses,
    masked,
    attention,
    normalization,
    networks,
    pointwise,
    pooling,
    ordering,
    calculus,
    reductions,
    joining,
    shapes,
)

ADAPTERS: Final[dict[str, Adapter]] = {
    name: adapter for module in _MODULES for name, adapter in module.ADAPTERS.items()
}

__all__ = ["ADAPTERS", "Adapter", "RandomError", "UnmappedError"]
