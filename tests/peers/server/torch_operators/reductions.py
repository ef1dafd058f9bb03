"""Reductions, scans, sorting and products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from torch_operators.convert import Function, axes_of, of_axes, require

Tensor = torch.Tensor


def _over_axes(function: Function) -> Function:
    """Wrap a PyTorch function that reduces several axes at once."""

    def reduced(x: Tensor, axis: Sequence[int], keepdims: bool) -> Tensor:
        axes = axes_of(axis, x)
        return function(x, axes, keepdims) if axes else function(x[None], (0,), False)

    return reduced


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    require(x.is_floating_point(), "means of integers")
    return x.mean(axes, keepdim=keepdims)


def _one_by_one(function: Function) -> Function:
    """Wrap a PyTorch function that reduces one axis at a time."""

    def reduced(x: Tensor, axis: Sequence[int], keepdims: bool) -> Tensor:
        axes = sorted(a % max(x.dim(), 1) for a in axes_of(axis, x))
        out = x
        for a in reversed(axes):
            out = function(out, a)
        if not axes:
            out = function(x[None], 0)
        for a in axes if keepdims else ():
            out = out.unsqueeze(a)
        return out

    return reduced


def _variance(x: Tensor, axis: Sequence[int], keepdims: bool, correction: float) -> Tensor:
    require(x.dim() > 0, "a variance of no axes")
    count = math.prod(x.shape[i] for i in axes_of(axis, x))
    # PyTorch divides by max(n - correction, 0), but its gradient by n - correction.
    defined = count >= correction or not x.requires_grad
    require(defined, f"the gradient of a variance of {count} elements less {correction}")
    return torch.var(x, axes_of(axis, x), correction=correction, keepdim=keepdims)


def _std(x: Tensor, axis: Sequence[int], keepdims: bool, correction: float) -> Tensor:
    require(x.dim() > 0, "a deviation of no axes")
    return torch.std(x, axes_of(axis, x), correction=correction, keepdim=keepdims)


def _norm(x: Tensor, p: float, axis: Sequence[int], keepdims: bool) -> Tensor:
    return torch.linalg.vector_norm(x, p, axes_of(axis, x) or None, keepdims)


def _arg(function: Function) -> Function:
    def found(x: Tensor, axis: int, keepdims: bool) -> Tensor:
        require(x.dtype != torch.bool, "argmax of bool")
        return function(x, axis, keepdims)

    return found


def _shifted(out: Tensor, axis: int, start: float) -> Tensor:
    """Make a scan exclusive: prepend its start and remove its last element."""
    first = torch.full_like(out.narrow(axis, 0, min(1, out.shape[axis])), start)
    return torch.cat([first, out.narrow(axis, 0, max(out.shape[axis] - 1, 0))], axis)


def _cumulated(function: Function, start: float) -> Function:
    def scanned(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
        if x.dim() == 0:
            return scanned(x[None], 0, exclusive, reverse)[0]
        out = function(x.flip(axis) if reverse else x, axis)
        out = _shifted(out, axis, start) if exclusive else out
        return out.flip(axis) if reverse else out

    return scanned


def _sort(x: Tensor, axis: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim=axis, descending=descending, stable=True)[0], None


def _argsort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    return torch.argsort(x, dim=axis, descending=descending, stable=True)


def _quantile(
    x: Tensor, q: float, axis: Sequence[int], keepdims: bool, interpolation: str = "linear"
) -> Tensor:
    require(x.dtype in (torch.float32, torch.float64), "a quantile in 16 bits")
    axes = sorted(a % max(x.dim(), 1) for a in axes_of(axis, x))
    kept = [a for a in range(x.dim()) if a not in axes]
    require(x.numel() > 0, "a quantile of no elements")
    lines = x.permute([*kept, *axes]).reshape([*(x.shape[a] for a in kept), -1])
    out = torch.quantile(lines, q, dim=-1, interpolation=interpolation)
    for a in axes if keepdims else ():
        out = out.unsqueeze(a)
    return out


def _median(x: Tensor, axis: Sequence[int], keepdims: bool) -> Tensor:
    require(not bool(torch.isinf(x).any()), "a mean of infinities")
    return _quantile(x, 0.5, axis, keepdims)


def _searchsorted(x: Tensor, values: Tensor, side: str, rows: bool, dtype: str) -> Tensor:
    require(not bool(torch.isnan(x.double()).any()), "NaN that are equal")
    return torch.searchsorted(x, values, side=side, out_int32=dtype == "int32")


def _bincount(x: Tensor, length: int, weights: Tensor | None = None) -> Tensor:
    require(weights is None or not weights.requires_grad, "a gradient of bincount")
    out = torch.bincount(x, weights, length)
    return out if weights is None else out.to(weights.dtype)


def _histogram(x: Tensor, bins: int, min: float, max: float) -> Tensor:
    require(x.dtype in (torch.float32, torch.float64), "a histogram of integers")
    kept = x[(x >= min) & (x <= max)]
    return torch.histogram(kept.double(), bins, range=(min, max))[0].long()


def _unique(x: Tensor) -> Any:
    require(not x.is_floating_point() or not bool(torch.isnan(x).any()), "NaN that are one")
    out, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return out, None, inverse, counts


def _top_k(x: Tensor, k: int, axis: int, largest: bool, sorted: bool) -> Any:
    require(sorted, "an order that is not said")
    return torch.topk(x, k, axis, largest)[0], None


def _matmul(x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool) -> Tensor:
    x = x.transpose(-1, -2) if transpose_x and x.dim() > 1 else x
    y = y.transpose(-1, -2) if transpose_y and y.dim() > 1 else y
    return torch.matmul(x, y)


def _gemm(
    a: Tensor,
    b: Tensor,
    alpha: float,
    beta: float,
    transpose_a: bool,
    transpose_b: bool,
    c: Tensor | None = None,
) -> Tensor:
    out = alpha * ((a.T if transpose_a else a) @ (b.T if transpose_b else b))
    return out if c is None else out + beta * c


def _grouped_matmul(x: Tensor, weight: Tensor, offsets: Tensor, transpose_weight: bool) -> Tensor:
    parts = torch.tensor_split(x, offsets.long().cpu())
    matrices = [*(weight.transpose(1, 2) if transpose_weight else weight), None]
    rows = [
        part.new_zeros(len(part), weight.shape[1 if transpose_weight else 2])
        if matrix is None
        else part @ matrix
        for part, matrix in zip(parts, matrices)
    ]
    return torch.cat(rows)


def _grouped_outer(x: Tensor, y: Tensor, offsets: Tensor) -> Tensor:
    require(len(offsets) > 0, "a stack of nothing")
    ends = offsets.long().cpu()
    pairs = list(zip(torch.tensor_split(x, ends), torch.tensor_split(y, ends)))
    return torch.stack([part.T @ other for part, other in pairs[:-1]])


def _bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.nn.functional.bilinear(x, y, weight, bias)


def _cos_sim(x: Tensor, y: Tensor, scale: float, axis: int, epsilon: float) -> Any:
    rank = max(x.dim(), y.dim())
    x, y = (one[(None,) * (rank - one.dim())] for one in (x, y))
    if rank > 0 and x.shape[axis] != y.shape[axis]:
        n = [-1] * rank
        n[axis] = max(x.shape[axis], y.shape[axis])
        x, y = x.expand(n), y.expand(n)
    x_norm = torch.linalg.vector_norm(x, dim=axis, keepdim=True).clamp_min(epsilon)
    y_norm = torch.linalg.vector_norm(y, dim=axis, keepdim=True).clamp_min(epsilon)
    return scale * (x * y).sum(axis, keepdim=True) / (x_norm * y_norm), x_norm, y_norm


REDUCTIONS: dict[str, Function] = {
    "sum": _over_axes(lambda x, axes, keepdims: x.sum(axes, keepdim=keepdims)),
    "mean": of_axes(_over_axes(_mean)),
    "max": _over_axes(lambda x, axes, keepdims: torch.amax(x, axes, keepdims)),
    "min": _over_axes(lambda x, axes, keepdims: torch.amin(x, axes, keepdims)),
    "prod": of_axes(_one_by_one(lambda x, axis: torch.prod(x, axis))),
    "any": _over_axes(lambda x, axes, keepdims: torch.any(x != 0, axes, keepdims)),
    "all": _over_axes(lambda x, axes, keepdims: torch.all(x != 0, axes, keepdims)),
    "logsumexp": _over_axes(lambda x, axes, keepdims: torch.logsumexp(x, axes, keepdims)),
    "count_nonzero": _over_axes(lambda x, axes, keepdims: (x != 0).sum(axes, keepdim=keepdims)),
    "norm": _norm,
    "variance": _variance,
    "std": _std,
    "unique": _unique,
    "argmax": _arg(torch.argmax),
    "argmin": _arg(torch.argmin),
    "cumsum": _cumulated(torch.cumsum, 0),
    "cumprod": _cumulated(torch.cumprod, 1),
    "sort": _sort,
    "median": of_axes(_median),
    "quantile": of_axes(_quantile),
    "searchsorted": _searchsorted,
    "bincount": _bincount,
    "histogram": _histogram,
    "argsort": _argsort,
    "top_k": _top_k,
}

PRODUCTS: dict[str, Function] = {
    "matmul": _matmul,
    "grouped_matmul": _grouped_matmul,
    "grouped_outer": _grouped_outer,
    "gemm": _gemm,
    "einsum": lambda x, equation: torch.einsum(equation, *x),
    "bilinear": _bilinear,
    "cos_sim": _cos_sim,
}

OPERATORS = {**REDUCTIONS, **PRODUCTS}
