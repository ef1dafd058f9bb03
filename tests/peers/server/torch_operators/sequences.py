"""Operators on padded sequences with given lengths."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def _inside(lengths: Tensor, steps: int, rank: int) -> Tensor:
    """Return a mask [n, t, 1, ...] of the steps within their sequence."""
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


def _conv(
    x: Tensor,
    lengths: Tensor,
    weight: Tensor,
    context_length: int,
    context_start: int | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Convolve each sequence separately, padded with zeros at both ends."""
    require(x.numel() > 0 and weight.numel() > 0, "convolutions of nothing")
    first = -(context_length // 2) if context_start is None else context_start
    before, behind = max(0, -first), max(0, first + context_length - 1)
    require(before + behind < 1000, "contexts far outside")
    kernel = weight.reshape(context_length, x.shape[2], -1).permute(2, 1, 0)
    out = []
    for row, count in zip(x, lengths.tolist(), strict=True):
        held = F.pad(row[:count].T, [before, behind])
        held = held[None, :, before + first :][..., : count + context_length - 1]
        one = F.conv1d(held, kernel, bias)[0].T if count else row.new_zeros(0, kernel.shape[0])
        out.append(F.pad(one, [0, 0, 0, x.shape[1] - count]))
    return torch.stack(out)


def _pack(x: Tensor, lengths: Tensor) -> Tensor:
    require(len(x) > 0, "no sequences")
    return torch.cat([row[:count] for row, count in zip(x, lengths.tolist(), strict=True)])


def _unpack(x: Tensor, lengths: Tensor, max_length: int) -> Tensor:
    require(len(lengths) > 0, "no sequences")
    padded = pad_sequence(list(torch.split(x, lengths.tolist())), batch_first=True)
    rest = max_length - padded.shape[1]
    return torch.cat([padded, padded.new_zeros(len(padded), rest, *x.shape[1:])], 1)


OPERATORS: dict[str, Function] = {
    "sequence_mask": _mask,
    "sequence_pool": _pool,
    "sequence_softmax": _softmax,
    "sequence_reverse": _reverse,
    "sequence_conv": _conv,
    "sequence_pack": _pack,
    "sequence_unpack": _unpack,
}
