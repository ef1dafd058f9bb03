"""Adapters for embedding lookups."""

from __future__ import annotations

from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    UnmappedError,
    ops,
    shape_of,
)


def embedding_bag(
    weight: Any,
    x: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
    padding_idx: int | None = None,
    include_last_offset: bool = False,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    **_: Any,
) -> Any:
    if max_norm is not None:
        weight = shortened(weight, float(max_norm), float(norm_type))
    if scale_grad_by_freq and not isinstance(weight, torch.Tensor):
        raise UnmappedError("gradients divided by frequencies")
    given = {"offsets": offsets, "per_sample_weights": per_sample_weights}
    given = {name: value for name, value in given.items() if value is not None}
    padding = -1 if padding_idx is None else padding_idx % shape_of(weight)[0]
    attrs = {"mode": mode, "padding_index": padding, "include_last_offset": include_last_offset}
    return ops.embedding_bag(weight, x, **given, **attrs)


def embedding(
    weight: Any,
    x: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    if scale_grad_by_freq and not isinstance(weight, torch.Tensor):
        raise UnmappedError("gradients divided by frequencies")
    rows = ops.embedding(weight, x)
    if max_norm is None:
        return rows
    return shortened(rows, float(max_norm), float(norm_type))


def shortened(rows: Any, most: float, p: float) -> Any:
    """Limit the norm of looked-up rows; PyTorch does this in place."""
    length = ops.norm(rows, p=p, axis=[-1], keepdims=True)
    factor = ops.divide(most, ops.scale(length, bias=1e-7))
    return ops.multiply(rows, ops.where(ops.greater(length, most), factor, 1.0))


def one_hot(x: Any, num_classes: int = -1) -> Any:
    if num_classes < 0:
        num_classes = int(ops.max(x)) + 1
    return ops.one_hot(x, depth=num_classes, dtype="int64")


ADAPTERS: Final[dict[str, Adapter]] = {
    "nn.functional.embedding": embedding,
    "nn.functional.embedding_bag": embedding_bag,
    "nn.functional.one_hot": one_hot,
}
