"""Operators with positions: indexed updates, embedding bags, grid sampling, unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_operators.convert import Function, channels_first, pad_spatial, require

Tensor = torch.Tensor


def _places(x: Tensor, index: Tensor, axis: int) -> Tensor:
    """Return nonnegative positions; a scalar counts as one element along its axis."""
    return index.long() % (max(x.shape[axis], 1) if x.dim() else 1)


def _along(name: str) -> Function:
    function = getattr(torch, name)

    def write(x: Tensor, index: Tensor, updates: Tensor, axis: int, **more: Any) -> Tensor:
        if x.dim() == 0:  # PyTorch accepts only updates in the shape of x
            return write(x.reshape(1), index, updates, 0, **more).reshape(())
        places = _places(x, index, axis)
        is_sole = name == "index_add" or len(places.unique()) == len(places)
        require(is_sole, "which of equal places counts")
        return function(x, axis, places, updates, **more)

    return write


def _index_add(x: Tensor, index: Tensor, updates: Tensor, axis: int, alpha: float) -> Tensor:
    factor = alpha if x.is_floating_point() else int(alpha)
    return _along("index_add")(x, index, updates, axis, alpha=factor)


def _index_copy(x: Tensor, index: Tensor, updates: Tensor, axis: int) -> Tensor:
    return _along("index_copy")(x, index, updates, axis)


def _index_fill(x: Tensor, index: Tensor, axis: int, value: float) -> Tensor:
    number = value if x.is_floating_point() else int(value)
    return x.index_fill(axis, _places(x, index, axis), number)


def _index_put(x: Tensor, indices: list[Tensor], values: Tensor, accumulate: bool) -> Tensor:
    keys = [index.long() % max(n, 1) for index, n in zip(indices, x.shape)]
    places = torch.stack(torch.broadcast_tensors(*keys)).flatten(1)
    is_sole = places.unique(dim=1).shape[1] == places.shape[1]
    require(accumulate or is_sole, "which of equal places counts")
    return x.index_put(keys, values, accumulate)


def _embedding_bag(
    weight: Tensor,
    index: Tensor,
    mode: str,
    padding_index: int,
    include_last_offset: bool,
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
) -> Tensor:
    bags = len(index if offsets is None else offsets) - include_last_offset
    require(bags > 0, "no bags: PyTorch is killed by a signal")
    if include_last_offset and offsets is not None:
        require(int(offsets[-1]) == len(index), "an end of the last bag before that of the index")
    return F.embedding_bag(
        index.long(),
        weight,
        None if offsets is None else offsets.long(),
        mode=mode,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=None if padding_index < 0 else padding_index,
    )


def _affine_grid(theta: Tensor, output_size: Sequence[int], align_corners: bool) -> Tensor:
    require(theta.shape[0] > 0, "grids of nothing")
    return F.affine_grid(theta, [theta.shape[0], 1, *output_size], align_corners)


def _grid_sample(
    x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool, normalized: bool
) -> Tensor:
    require(normalized, "grids in pixels")
    require(
        bool((grid.abs() < 1e9).all()),
        "places far from memory, where PyTorch is killed by a signal",
    )
    return F.grid_sample(x, grid, mode, padding_mode, align_corners)


def _lp_pool(rank: int) -> Function:
    def pool(
        x: Tensor,
        kernel: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int],
        ceil_mode: bool,
        dilations: Sequence[int],
        p: float,
    ) -> Tensor:
        require(set(dilations) <= {1}, "windows with gaps")
        require(not ceil_mode, "windows over an edge that count as whole ones")
        sides = list(strides) or list(kernel)
        function = (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)[rank - 1]
        one = rank == 1
        padded = pad_spatial(x.abs(), paddings, 0.0)
        return function(padded, p, kernel[0] if one else list(kernel), sides[0] if one else sides)

    return channels_first(pool)


def _max_unpool(x: Tensor, index: Tensor, output_size: Sequence[int], data_format: str) -> Tensor:
    if data_format[1] != "C":
        x, index = x.movedim(-1, 1), index.movedim(-1, 1)
        return _max_unpool(x, index, output_size, "NC").movedim(1, -1)
    flat = torch.zeros(*x.shape[:2], torch.Size(output_size).numel(), dtype=x.dtype)
    places = index.long().flatten(2)
    counts = flat.scatter_add(2, places, torch.ones_like(places, dtype=x.dtype))
    require(bool((counts <= 1).all()), "which of equal places counts")
    return flat.scatter(2, places, x.flatten(2)).reshape(*x.shape[:2], *output_size)


OPERATORS: dict[str, Function] = {
    "affine_grid": _affine_grid,
    "embedding_bag": _embedding_bag,
    "grid_sample": _grid_sample,
    "index_add": _index_add,
    "index_copy": _index_copy,
    "index_fill": _index_fill,
    "index_put": _index_put,
    **{f"lp_pool{rank}d": _lp_pool(rank) for rank in (1, 2, 3)},
    "masked_scatter": lambda x, mask, source: x.masked_scatter(mask, source),
    "masked_select": lambda x, mask: torch.masked_select(x, mask),
    **{f"max_unpool{rank}d": _max_unpool for rank in (1, 2, 3)},
}
