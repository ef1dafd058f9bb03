"""Adapters for sorting and order statistics."""

from __future__ import annotations

from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    UnmappedError,
    axis_of,
    cast,
    filled,
    flat,
    is_float,
    is_number,
    ops,
    part,
    rank_of,
    size_along,
)


def both_sorted(x: Any, dim: int, descending: bool) -> tuple[Any, Any]:
    wanted = ["out", "indices"]
    values, indices = ops.sort(x, axis=dim, descending=descending, returns=wanted)
    return values, indices


def lower_median(x: Any, dim: int, keepdim: bool, ignore_nan: bool) -> Any:
    """Return the lower of the two middle elements, as PyTorch does, and its position."""
    length = size_along(x, [dim]) if rank_of(x) else 1
    values, indices = both_sorted(x, dim, False)
    if not is_float(x):
        middle = (length - 1) // 2
        values, indices = (part_or_self(item, dim, middle) for item in (values, indices))
    else:
        is_nan = cast(ops.isnan(x), "int64")
        n_nan = ops.sum(is_nan, axis=[dim], keepdims=True)
        middle_of = ops.floor_divide(ops.subtract(length - 1, n_nan), 2)
        if ignore_nan:
            place = ops.maximum(middle_of, 0)
        else:
            place = ops.where(
                ops.greater(n_nan, 0), length - 1, (length - 1) // 2 + filled(n_nan, 0)
            )
        values, indices = (ops.take_along_axis(item, place, axis=dim) for item in (values, indices))
    if not keepdim and rank_of(x):
        values, indices = ops.squeeze(values, axis=[dim]), ops.squeeze(indices, axis=[dim])
    return values, cast(indices, "int64")


def part_or_self(x: Any, axis: int, place: int) -> Any:
    return part(x, axis, place, place + 1) if rank_of(x) else x


def median(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return lower_median(flat(x), 0, False, False)[0]
    return lower_median(x, axis_of(x, dim), keepdim, False)


def nanmedian(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return lower_median(flat(x), 0, False, True)[0]
    return lower_median(x, axis_of(x, dim), keepdim, True)


def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    axis = axis_of(x, dim)
    results = [part_or_self(item, axis, k - 1) for item in both_sorted(x, axis, False)]
    if not keepdim and rank_of(x):
        results = [ops.squeeze(item, axis=[axis]) for item in results]
    return results[0], cast(results[1], "int64")


def quantiles(op: str) -> Adapter:
    def apply(
        x: Any,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Any:
        if not is_number(q) and not isinstance(q, torch.Tensor):
            raise UnmappedError("a quantile that is computed")
        listed = [q] if is_number(q) else [float(item) for item in q.reshape(-1)]
        axes = list(range(rank_of(x))) if dim is None else [dim]
        attrs = {"axis": axes, "keepdims": keepdim, "interpolation": interpolation}
        results = [getattr(ops, op)(x, q=item, **attrs) for item in listed]
        is_list = not is_number(q) and rank_of(q)
        return ops.stack(results, axis=0) if is_list else results[0]

    return apply


def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    values, indices = both_sorted(x, dim, descending)
    return values, cast(indices, "int64")


def msort(x: Any) -> Any:
    return ops.sort(x, axis=0)


def argsort(x: Any, dim: int = -1, descending: bool = False, **_: Any) -> Any:
    return cast(ops.argsort(x, axis=dim, descending=descending), "int64")


def top_k(
    x: Any,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> Any:
    values, indices = ops.top_k(x, k=k, axis=dim, largest=largest, sorted=sorted)
    return values, cast(indices, "int64")


ADAPTERS: Final[dict[str, Adapter]] = {
    "argsort": argsort,
    "kthvalue": kthvalue,
    "median": median,
    "msort": msort,
    "nanmedian": nanmedian,
    "nanquantile": quantiles("nanquantile"),
    "quantile": quantiles("quantile"),
    "sort": sort,
    "topk": top_k,
}
