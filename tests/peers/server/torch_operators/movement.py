"""Operators that change shapes, move data or create arrays."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from torch_operators.convert import Function, of_axes, pad_spatial, require

Tensor = torch.Tensor


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def _reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def _flatten(x: Tensor, start_axis: int, stop_axis: int) -> Tensor:
    require(x.dim() > max(start_axis, 0), "an axis beyond the shape")
    return torch.flatten(x, start_axis, stop_axis)


def _squeeze(x: Tensor, axis: Sequence[int]) -> Tensor:
    return x.squeeze(tuple(axis)) if axis else x.squeeze()


def _unsqueeze(x: Tensor, axis: Sequence[int]) -> Tensor:
    rank = x.dim() + len(axis)
    for a in sorted(a % rank for a in axis):
        x = x.unsqueeze(a)
    return x


def _split(
    x: Tensor, axis: int, sections: Sequence[int], n_outputs: int, num: int | None = None
) -> list[Tensor]:
    if sections:
        return list(torch.split(x, list(sections), axis))
    return list(torch.tensor_split(x, num or n_outputs, axis))


def _slice(
    x: Tensor,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
) -> Tensor:
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
        index = torch.tensor(range(x.shape[axis])[start:end:step], dtype=torch.int64)
        x = torch.index_select(x, axis, index)
    return x


def _roll(x: Tensor, shift: Sequence[int], axis: Sequence[int]) -> Tensor:
    sizes = [x.shape[a] for a in axis] if axis else [x.numel()]
    # PyTorch does not accept integers far beyond the length of an axis.
    turns = tuple(n % max(size, 1) for n, size in zip(shift, sizes, strict=True))
    return torch.roll(x, turns, tuple(axis))


def _slice_scatter(
    x: Tensor,
    updates: Tensor,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
) -> Tensor:
    if x.dim() == 0:
        return updates.clone()
    places = [list(range(n)) for n in x.shape]
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
        places[axis] = list(range(x.shape[axis])[start:end:step])
    grid = torch.meshgrid(*(torch.tensor(p, dtype=torch.int64) for p in places), indexing="ij")
    return x.index_put(tuple(grid), updates)


def _pad(x: Tensor, paddings: Sequence[int], mode: str, value: float) -> Tensor:
    if mode == "constant":
        return pad_spatial(x, paddings, value)
    require(x.is_floating_point() and x.dim() in {2, 3, 4}, "PyTorch pads images alone so")
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    wanted = [n for pair in reversed(pairs) for n in pair]
    kept = x.dim() - 2 if x.dim() > 2 else 1
    require(not any(wanted[2 * kept :]), "PyTorch pads the last axes alone so")
    out = x[None] if x.dim() == 2 else x
    out = F.pad(out, wanted[: 2 * kept], mode={"edge": "replicate"}.get(mode, mode))
    return out[0] if x.dim() == 2 else out


def _rows(x: Tensor, index: Tensor, axis: int) -> Tensor:
    axis %= x.dim()
    places = index.reshape(-1).long()
    flat = torch.index_select(x, axis, torch.where(places < 0, places + x.shape[axis], places))
    return flat.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def _gather_nd(x: Tensor, index: Tensor) -> Tensor:
    return (
        x[tuple(index.long().unbind(-1))]
        if index.shape[-1]
        else x.expand(*index.shape[:-1], *x.shape)
    )


_REDUCE = {"mul": "prod", "max": "amax", "min": "amin", "add": "sum", "mean": "mean"}


def _scatter(x: Tensor, index: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    places = index.long()
    places = torch.where(places < 0, places + x.shape[axis], places)
    if reduction == "none":
        counts = torch.zeros(x.shape).scatter_add(axis, places, torch.ones(updates.shape))
        require(bool((counts <= 1).all()), "which of equal places counts")
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _REDUCE[reduction])


def _scatter_reduce(
    x: Tensor, index: Tensor, updates: Tensor, axis: int, reduction: str, include_self: bool
) -> Tensor:
    places = index.long()
    places = torch.where(places < 0, places + (x.shape[axis] if x.dim() else 1), places)
    return x.scatter_reduce(axis, places, updates, _REDUCE[reduction], include_self=include_self)


def _scatter_nd(x: Tensor, index: Tensor, updates: Tensor, reduction: str) -> Tensor:
    require(reduction in {"none", "add"} and index.shape[-1] > 0, f"reduction {reduction}")
    places = tuple(
        torch.where(p < 0, p + n, p) for p, n in zip(index.long().unbind(-1), x.shape, strict=False)
    )
    if reduction == "none":
        rows = torch.stack(places, -1).reshape(-1, len(places)).tolist()
        require(len(set(map(tuple, rows))) == len(rows), "which of equal places counts")
    return x.index_put(places, updates, accumulate=reduction == "add")


def _one_hot(x: Tensor, depth: int, dtype: str = "float32") -> Tensor:
    inside = (x >= 0) & (x < depth)
    require(bool(inside.all()), "ids outside of the depth")
    return F.one_hot(x.long(), depth).to(_dtype(dtype))


def _expand(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x.expand(*shape).clone()


def _eye(n_rows: int, k: int, dtype: str, n_cols: int | None = None) -> Tensor:
    require(k == 0, "another diagonal")
    return torch.eye(n_rows, n_cols or n_rows, dtype=_dtype(dtype))


def _multiplex(index: Tensor, x: list[Tensor]) -> Tensor:
    rows = index.reshape(-1).long()
    return torch.stack(x)[rows, torch.arange(rows.numel())]


OPERATORS: dict[str, Function] = {
    "reshape": _reshape,
    "flatten": _flatten,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "transpose": lambda x, axes: x.permute(tuple(axes) or tuple(range(x.dim())[::-1])),
    "concat": lambda x, axis: torch.cat(x, axis),
    "split": _split,
    "stack": lambda x, axis: torch.stack(x, axis),
    "unstack": lambda x, axis: list(torch.unbind(x, axis)),
    "expand": _expand,
    "tile": lambda x, repeats: torch.tile(x, tuple(repeats)),
    "slice": _slice,
    "slice_scatter": _slice_scatter,
    "pad": _pad,
    "gather": of_axes(_rows),
    "index_select": _rows,
    "gather_nd": _gather_nd,
    "take_along_axis": of_axes(lambda x, index, axis: torch.take_along_dim(x, index.long(), axis)),
    "scatter": of_axes(_scatter),
    "scatter_reduce": _scatter_reduce,
    "scatter_nd": _scatter_nd,
    "flip": lambda x, axis: torch.flip(x, tuple(axis) or tuple(range(x.dim()))),
    "roll": of_axes(_roll),
    "triu": lambda x, k: torch.triu(x, k),
    "tril": lambda x, k: torch.tril(x, k),
    "one_hot": _one_hot,
    "cast": lambda x, dtype: x.to(_dtype(dtype)),
    "nonzero": lambda x: torch.nonzero(x).T,
    "fill": lambda shape, value, dtype: torch.full(tuple(shape), value, dtype=_dtype(dtype)),
    "constant": lambda values, shape, dtype: (
        torch.tensor(values, dtype=torch.float64).reshape(shape).to(_dtype(dtype))
    ),
    "fill_like": lambda x, value: torch.full_like(x, value),
    "cast_like": lambda x, like: x.to(like.dtype),
    "expand_like": lambda x, like: x.expand_as(like).clone(),
    "reshape_like": lambda x, like: x.reshape(like.shape),
    "sum_like": lambda x, like: x.sum_to_size(like.shape),
    "eye": _eye,
    "increment": lambda x, step: x + step,
    "multiplex": _multiplex,
    "linspace": lambda start, stop, num, dtype: torch.linspace(
        start, stop, num, dtype=_dtype(dtype)
    ),
    "size": lambda x: torch.tensor(x.numel()),
    "shape": lambda x: torch.tensor(x.shape),
    "is_empty": lambda x: torch.tensor(x.numel() == 0),
}
