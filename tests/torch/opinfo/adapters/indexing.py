"""Adapters for operators that read or write elements at positions."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    UnmappedError,
    as_value,
    axis_of,
    cast,
    dtype_of,
    filled,
    flat,
    is_float,
    is_number,
    ops,
    part,
    promoted,
    rank_of,
    reshaped,
    result_dtype,
    scalar,
    shape_of,
)
from .shapes import linalg_diagonal

REDUCTIONS: Final = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul"}
REDUCTIONS.update({"amax": "max", "amin": "min", "mean": "mean"})


def cut_to(x: Any, shape: list[int], kept: int | None = None) -> Any:
    """Return the leading slice of x with the given shape; the axis `kept` keeps its full length."""
    axes = [a for a, n in enumerate(shape) if a != kept and n != shape_of(x)[a]]
    ends = [shape[axis] for axis in axes]
    return ops.slice(x, axes=axes, starts=[0] * len(axes), ends=ends) if axes else x


def as_line(x: Any) -> Any:
    """Reshape a scalar to a one-element vector."""
    return x if rank_of(x) else ops.reshape(x, shape=[1])


def gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    shape, axis = shape_of(index), axis_of(x, dim)
    if 0 in shape:
        return reshaped(part(flat(x), 0, 0, 0), shape)
    x, index = as_line(x), ops.reshape(index, shape=[-1]) if rank_of(index) < 2 else index
    x = cut_to(x, shape_of(index), axis)
    out = ops.take_along_axis(x, cast(index, "int64"), axis=axis)
    return ops.reshape(out, shape=shape)


def index_select(x: Any, dim: int, index: Any) -> Any:
    out = ops.index_select(as_line(x), as_line(index), axis=axis_of(x, dim))
    return out if rank_of(x) else ops.reshape(out, shape=[])


def take(x: Any, index: Any) -> Any:
    return ops.gather(flat(x), index)


def take_along_dim(x: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        x, indices, dim = flat(x), flat(indices), 0
    return ops.take_along_axis(x, indices, axis=dim)


def scatter(x: Any, dim: int, index: Any, src: Any = None, **kwargs: Any) -> Any:
    src = kwargs.get("value", src)
    reduction = REDUCTIONS.get(kwargs.get("reduce", ""), "none")
    return scattered(x, dim, index, src, "scatter", reduction=reduction)


def scattered(x: Any, dim: int, index: Any, src: Any, op: str, **attrs: Any) -> Any:
    shape, axis = shape_of(x), axis_of(x, dim)
    if not math.prod(shape_of(index)):
        return ops.assign(x)
    x, index = as_line(x), as_line(index)
    if is_number(src):
        src = scalar(src if is_float(x) else int(src), dtype_of(x), like=index)
    src = cut_to(as_line(src), shape_of(index))
    out = getattr(ops, op)(x, index, src, axis=axis, **attrs)
    return ops.reshape(out, shape=shape)


def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    return scattered(x, dim, index, src, "scatter", reduction="add")


def scatter_reduce(
    x: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    attrs = {"reduction": REDUCTIONS[reduce], "include_self": include_self}
    return scattered(x, dim, index, src, "scatter_reduce", **attrs)


def index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    places = widened(index, source, axis_of(x, dim))
    return scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


def widened(index: Any, like: Any, axis: int) -> Any:
    """Broadcast a vector of positions to the shape of the values to place."""
    if not rank_of(like):
        return ops.reshape(index, shape=[])
    shape = [1] * rank_of(like)
    shape[axis] = -1
    return ops.expand(ops.reshape(index, shape=shape), shape=shape_of(like))


def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    return along("index_add", x, dim, index, as_line(source), alpha=float(alpha))


def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    return along("index_copy", x, dim, index, as_line(source))


def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    if is_number(value):
        value = as_value(value, dtype_of(x))
        return along("index_fill", x, dim, index, value=value)
    shape = shape_of(as_line(x))
    shape[axis_of(x, dim)] = math.prod(shape_of(index))
    return along("index_copy", x, dim, index, ops.expand(cast(value, dtype_of(x)), shape=shape))


def along(op: str, x: Any, dim: int, index: Any, *updates: Any, **attrs: Any) -> Any:
    """Call an operator that takes positions along an axis; a scalar becomes a vector."""
    attrs["axis"] = axis_of(x, dim)
    out = getattr(ops, op)(as_line(x), as_line(index), *updates, **attrs)
    return out if rank_of(x) else ops.reshape(out, shape=[])


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    keys = list(indices)
    if any(item.dtype == torch.bool for item in keys):
        if len(keys) > 1:
            raise UnmappedError("a mask among other indices")
        places = ops.nonzero(keys[0])
        keys = list(ops.unstack(places, axis=0, num=rank_of(keys[0])))
    return ops.index_put(x, keys, values, accumulate=accumulate)


def masked_select(x: Any, mask: Any) -> Any:
    shape = list(torch.broadcast_shapes(shape_of(x), shape_of(mask)))
    return ops.masked_select(ops.expand(x, shape=shape), ops.expand(mask, shape=shape))


def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    shape = list(torch.broadcast_shapes(shape_of(x), shape_of(mask)))
    return ops.masked_scatter(ops.expand(x, shape=shape), ops.expand(mask, shape=shape), source)


def get_item(x: Any, key: Any) -> Any:
    """Return x[key], where key contains slices, positions and tensors of positions."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(item, torch.Tensor) and item.dtype == torch.bool for item in keys):
        return by_masks(x, keys)
    used = sum(1 for item in keys if item is not None and item is not Ellipsis)
    if Ellipsis in [item for item in keys if not isinstance(item, (torch.Tensor, list))]:
        place = next(i for i, item in enumerate(keys) if item is Ellipsis)
        keys[place : place + 1] = [slice(None)] * (rank_of(x) - used)
    tensors: dict[int, Any] = {}
    axis = 0
    for item in keys:
        if item is None:
            x = ops.unsqueeze(x, axis=[axis])
        elif isinstance(item, slice):
            first, last, step = item.indices(shape_of(x)[axis])
            x = part(x, axis, first, max(first, last), step)
        elif isinstance(item, bool):
            raise UnmappedError("a bool as an index")
        elif isinstance(item, int):
            place = item % shape_of(x)[axis]
            x = ops.squeeze(part(x, axis, place, place + 1), axis=[axis])
            continue
        else:
            tensors[axis] = torch.tensor(item) if isinstance(item, list) else item
        axis += 1
    return at_positions(x, tensors) if tensors else x


def by_masks(x: Any, keys: list[Any]) -> Any:
    if len(keys) == 1:
        return ops.gather_nd(x, ops.transpose(ops.nonzero(keys[0])))
    raise UnmappedError("a mask among other indices")


def at_positions(x: Any, tensors: dict[int, Any]) -> Any:
    """Return x at positions along several axes at once."""
    axes = list(tensors)
    shape = list(torch.broadcast_shapes(*(shape_of(index) for index in tensors.values())))
    places = [ops.expand(cast(index, "int64"), shape=shape) for index in tensors.values()]
    order = axes + [axis for axis in range(rank_of(x)) if axis not in axes]
    front = ops.transpose(x, axes=order)
    out = ops.gather_nd(front, ops.stack(places, axis=len(shape)))
    start = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    n = len(shape)
    rest = list(range(n, rank_of(out)))
    axes = [*rest[:start], *range(n), *rest[start:]]
    return ops.transpose(out, axes=axes) if axes else out


def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    places = ops.reshape(index, shape=[-1, 1])
    reduction = "add" if accumulate else "none"
    out = ops.scatter_nd(flat(x), places, flat(source), reduction=reduction)
    return ops.reshape(out, shape=shape_of(x))


def nonzero(x: Any, *, as_tuple: bool = False) -> Any:
    if not rank_of(x):
        places = ops.nonzero(as_line(x))
        if as_tuple:
            return [ops.reshape(places, shape=[-1])]
        return part(ops.transpose(places), 1, 0, 0)
    places = ops.nonzero(x)
    return list(ops.unstack(places, axis=0, num=rank_of(x))) if as_tuple else ops.transpose(places)


def argwhere(x: Any) -> Any:
    return nonzero(x)


def unravel_index(index: Any, shape: Any) -> list[Any]:
    sizes, out = [shape] if isinstance(shape, int) else list(shape), []
    index = cast(index, "int64")
    for size in reversed(sizes):
        out.insert(0, ops.mod(index, size))
        index = ops.floor_divide(index, size)
    return out


def diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    count = torch.arange(math.prod(shape_of(x))).reshape(shape_of(x))
    places = linalg_diagonal(count, offset=offset, dim1=dim1, dim2=dim2)
    out = ops.scatter_nd(flat(x), ops.reshape(places, shape=[-1, 1]), flat(src))
    return ops.reshape(out, shape=shape_of(x))


def select_scatter(x: Any, src: Any, dim: int, index: int) -> Any:
    axis = axis_of(x, dim)
    place = index % shape_of(x)[axis]
    updates = ops.unsqueeze(src, axis=[axis])
    return ops.slice_scatter(x, updates, axes=[axis], starts=[place], ends=[place + 1])


def slice_scatter(
    x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    axis = axis_of(x, dim)
    first, last, _ = slice(start, end).indices(shape_of(x)[axis])
    return ops.slice_scatter(
        x, src, axes=[axis], starts=[first], ends=[max(first, last)], steps=[step]
    )


def searchsorted(
    x: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    if sorter is not None:
        x = ops.take_along_axis(x, sorter, axis=-1)
    kind = side or ("right" if right else "left")
    dtype = result_dtype(x, values)
    x = cast(x, dtype)
    values = scalar(values, dtype) if is_number(values) else cast(values, dtype)
    attrs = {"side": kind, "rows": rank_of(x) > 1, "dtype": "int32" if out_int32 else "int64"}
    return ops.searchsorted(x, values, **attrs)


def bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, invert: bool = False, **_: Any) -> Any:
    x, values = promoted(elements, test_elements)
    if is_number(x):
        x = scalar(x, dtype_of(values))
    if is_number(values):
        found = ops.equal(x, values)
    else:
        found = ops.any(ops.equal(ops.unsqueeze(x, axis=[rank_of(x)]), flat(values)), axis=[-1])
    return ops.logical_not(found) if invert else found


def unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    wanted = ["out", *["inverse"] * return_inverse, *["counts"] * return_counts]
    return ops.unique(x, returns=wanted, **({} if dim is None else {"axis": dim}))


def unique_consecutive(
    x: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    wanted = ["out", *["inverse"] * return_inverse, *["counts"] * return_counts]
    attrs = {} if dim is None else {"axis": dim}
    return ops.unique_consecutive(x, returns=wanted, **attrs)


def fill(x: Any, value: Any) -> Any:
    if is_number(value):
        return filled(x, value)
    return ops.expand(cast(value, dtype_of(x)), shape=shape_of(x))


ADAPTERS: Final[dict[str, Adapter]] = {
    "__getitem__": get_item,
    "argwhere": argwhere,
    "bucketize": bucketize,
    "diagonal_scatter": diagonal_scatter,
    "fill": fill,
    "gather": gather,
    "index_add": index_add,
    "index_copy": index_copy,
    "index_fill": index_fill,
    "index_put": index_put,
    "index_reduce": index_reduce,
    "index_select": index_select,
    "isin": isin,
    "masked_scatter": masked_scatter,
    "masked_select": masked_select,
    "nonzero": nonzero,
    "put": put,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
    "searchsorted": searchsorted,
    "select_scatter": select_scatter,
    "slice_scatter": slice_scatter,
    "take": take,
    "take_along_dim": take_along_dim,
    "unique": unique,
    "unique_consecutive": unique_consecutive,
    "unravel_index": unravel_index,
}
