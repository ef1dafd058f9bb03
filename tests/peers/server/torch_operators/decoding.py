"""Sequence operators that PyTorch lacks, computed row by row so PyTorch can differentiate them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from torch_operators.convert import Function

Tensor = torch.Tensor


def _count(lengths: Tensor | None, row: int, steps: int) -> int:
    return steps if lengths is None else int(lengths[row])


def _ends(x: Tensor, *ends: Tensor | None) -> list[Tensor]:
    """Return the weights of the first and the last tag, or zeros if they are absent."""
    return [torch.zeros(x.shape[-1], dtype=x.dtype) if end is None else end for end in ends]


def _log_likelihood(x: Tensor, tags: list[int], pairs: Tensor, begin: Tensor, end: Tensor) -> Any:
    score = begin[tags[0]] + end[tags[-1]]
    total = begin + x[0]
    for step, tag in enumerate(tags):
        score = score + x[step, tag]
        if step > 0:
            score = score + pairs[tags[step - 1], tag]
            total = torch.logsumexp(total[:, None] + pairs, 0) + x[step]
    return score - torch.logsumexp(total + end, 0)


def _linear_chain_crf(
    x: Tensor,
    label: Tensor,
    transition: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Tensor:
    ends = _ends(x, start, end)
    out = torch.zeros(len(x), dtype=x.dtype).unbind()
    rows = list(out)
    for row in range(len(x)):
        count = _count(lengths, row, x.shape[1])
        if count:
            tags = label[row, :count].tolist()
            rows[row] = _log_likelihood(x[row], tags, transition, *ends)
    return torch.stack(rows) if rows else x.sum((1, 2))


def _best_tags(x: Any, pairs: Any, begin: Any, end: Any) -> tuple[float, list[int]]:
    """Return the highest score and its tags, by the Viterbi algorithm."""
    scores, back = begin + x[0], []
    for step in x[1:]:
        moves = scores[:, None] + pairs
        back.append(moves.argmax(0))
        scores = moves.max(0) + step
    scores = scores + end
    tags = [int(scores.argmax())]
    for best in reversed(back):
        tags.append(int(best[tags[-1]]))
    return float(scores.max()), tags[::-1]


def _viterbi_decode(
    x: Tensor,
    transition: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Any:
    weights = [one.numpy() for one in (transition, *_ends(x, start, end))]
    out, path = torch.zeros(len(x), dtype=x.dtype), torch.zeros(x.shape[:2], dtype=torch.int64)
    for row in range(len(x)):
        count = _count(lengths, row, x.shape[1])
        if count:
            score, tags = _best_tags(x[row, :count].numpy(), *weights)
            out[row], path[row, :count] = score, torch.tensor(tags)
    return out, path


def _edits(x: list[int], label: list[int]) -> int:
    """Return the edit distance, by dynamic programming over prefixes."""
    between = {}
    for i, j in itertools.product(range(len(x) + 1), range(len(label) + 1)):
        if min(i, j) == 0:
            between[i, j] = i + j
            continue
        kept = between[i - 1, j - 1] + (x[i - 1] != label[j - 1])
        between[i, j] = min(kept, between[i - 1, j] + 1, between[i, j - 1] + 1)
    return between[len(x), len(label)]


def _edit_distance(
    x: Tensor,
    label: Tensor,
    normalized: bool,
    lengths: Tensor | None = None,
    label_lengths: Tensor | None = None,
) -> Tensor:
    out = np.zeros(len(x), np.float32)
    for row in range(len(x)):
        first = x[row, : _count(lengths, row, x.shape[1])].tolist()
        second = label[row, : _count(label_lengths, row, label.shape[1])].tolist()
        out[row] = _edits(first, second)
        if normalized and out[row]:
            out[row] = out[row] / np.float32(len(second)) if second else np.inf
    return torch.from_numpy(out)


OPERATORS: dict[str, Function] = {
    "linear_chain_crf": _linear_chain_crf,
    "viterbi_decode": _viterbi_decode,
    "edit_distance": _edit_distance,
}
