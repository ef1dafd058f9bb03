"""Operators of padded sequences with their lengths."""

from __future__ import annotations

import torch

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def _inside(lengths: Tensor, steps: int, rank: int) -> Tensor:
    """Return which steps lie within their sequence, [n, t, 1, ...]."""
    mask = torch.arange(steps) < lengths.long()[:, None]
    return mask.reshape(*mask.shape, *[1] * (rank - 2))


def _mask(lengths: Tensor, max_length: int | None = None, like: Tensor | None = None) -> Tensor:
    require(like is None and max_length is not None, "a length that another tensor has")
    return _inside(lengths, max_length or 0, 2)


def _pool(x: Tensor, lengths: Tensor, kind: str) -> Tensor:
    require(x.shape[1] > 0, "sequences of no steps")
    mask, counts = _inside(lengths, x.shape[1], x.dim()), lengths.clamp_min(1)
    counts = counts.to(x.dtype).reshape(-1, *[1] * (x.dim() - 2))
    kept = torch.where(mask, x, 0)
    if kind in {"sum", "mean", "sqrt"}:
        factor = {"sum": 1.0, "mean": 1 / counts, "sqrt": counts**-0.5}[kind]
        return kept.sum(1) * factor
    empty = (lengths == 0).reshape(counts.shape)
    if kind == "max":
        return torch.where(empty, 0, torch.where(mask, x, -torch.inf).amax(1))
    places = torch.zeros_like(lengths) if kind == "first" else (lengths - 1).clamp_min(0)
    rows = x[torch.arange(x.shape[0]), places.long()]
    return torch.where(empty, torch.zeros_like(rows), rows)


def _softmax(x: Tensor, lengths: Tensor) -> Tensor:
    mask = _inside(lengths, x.shape[1], x.dim())
    out = torch.softmax(torch.where(mask, x, -torch.inf), 1)
    return torch.where(mask, out, 0)


def _reverse(x: Tensor, lengths: Tensor) -> Tensor:
    steps = torch.arange(x.shape[1])
    back = lengths.long()[:, None] - 1 - steps
    return x[torch.arange(x.shape[0])[:, None], torch.where(back >= 0, back, steps)]


OPERATORS: dict[str, Function] = {
    "sequence_mask": _mask,
    "sequence_pool": _pool,
    "sequence_softmax": _softmax,
    "sequence_reverse": _reverse,
}
