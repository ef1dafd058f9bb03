"""Metrics that are computed from row counts, such as the area under a curve of row counts."""

from __future__ import annotations

from typing import Any

import torch

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def _accuracy(x: Tensor, label: Tensor, k: int) -> Any:
    require(len(x) > 0, "a share of no rows")
    ids = label.reshape(-1).long()
    rows = torch.arange(len(x))
    own = x[rows, ids][:, None]
    # A row is correct if fewer than k classes precede its label: a greater score, NaN, or an equal
    # score with a lower id.
    is_before = torch.arange(x.shape[1]) < ids[:, None]
    ahead = (x > own) | torch.isnan(x) | ((x == own) & is_before)
    right = ((ahead.sum(1) < k) & ~torch.isnan(own[:, 0])).sum()
    share = (right.double() / len(x)).float()
    return share[None], right[None], torch.tensor([len(x)])


def _auc(
    x: Tensor, label: Tensor, positives: Tensor, negatives: Tensor, num_thresholds: int
) -> Any:
    bins = (x.reshape(-1) * num_thresholds).long()
    states = []
    for state, wanted in ((positives, 1), (negatives, 0)):
        chosen = bins[label.reshape(-1) == wanted]
        states.append(state + torch.bincount(chosen, minlength=num_thresholds + 1))
    # The curve begins at the highest threshold. By the trapezoidal rule, ties count one half.
    rates = [torch.cumsum(state.flip(0).double(), 0) for state in states]
    rates = [torch.cat([torch.zeros(1, dtype=torch.float64), rate]) for rate in rates]
    pairs = rates[0][-1] * rates[1][-1]
    area = torch.trapezoid(rates[0], rates[1]) / pairs if pairs > 0 else torch.zeros(())
    return area.float().reshape(1), *states


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole == 0, 0.0, part / whole)


def _summaries(states: Tensor) -> Tensor:
    """Return precision, recall and F1, first averaged over classes, then for the summed counts."""
    found = []
    for counts in (states.double(), states.double().sum(0, keepdim=True)):
        right, too_many, _, too_few = counts.unbind(1)
        precision, recall = _ratio(right, right + too_many), _ratio(right, right + too_few)
        both = _ratio(2 * precision * recall, precision + recall)
        found += [one.mean() for one in (precision, recall, both)]
    return torch.stack(found).float()


def _precision_recall(x: Tensor, label: Tensor, states: Tensor) -> Any:
    require(x.numel() > 0, "metrics of nothing")
    wanted, classes = label.reshape(-1).long(), torch.arange(x.shape[1])
    is_guess = torch.argmax(x, 1)[:, None] == classes
    is_label = wanted[:, None] == classes
    kinds = (is_guess & is_label, is_guess & ~is_label, ~is_guess & ~is_label, ~is_guess & is_label)
    counts = torch.stack([kind.sum(0) for kind in kinds], 1)
    return _summaries(counts), _summaries(states + counts), states + counts


OPERATORS: dict[str, Function] = {
    "accuracy": _accuracy,
    "auc": _auc,
    "precision_recall": _precision_recall,
}
