"""Helpers for adapters: convert PyTorch arguments to opwright tensors, axes and dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import torch

import opwright as ow

ops: Final = ow.ops

Adapter = Callable[..., Any]

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


class UnmappedError(Exception):
    """Raised for arguments that no opwright operator supports."""


class RandomError(Exception):
    """Raised for samples with numbers drawn by PyTorch's generator."""


def dtype_of(x: Any) -> str:
    """Return the dtype name of a tensor or variable."""
    return str(x.dtype).rpartition(".")[2]


def name_of(dtype: torch.dtype | None) -> str | None:
    """Return the name of a PyTorch dtype, or None for None."""
    return None if dtype is None else str(dtype).rpartition(".")[2]


def shape_of(x: Any) -> list[int]:
    return [int(length) for length in x.shape]


def rank_of(x: Any) -> int:
    return len(x.shape)


def is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float))


def is_float(x: Any) -> bool:
    return dtype_of(x) in FLOATS


def is_integer(x: Any) -> bool:
    return not is_float(x) and dtype_of(x) != "bool"


def cast(x: Any, dtype: str | None) -> Any:
    """Cast x to a dtype, or return it unchanged for None."""
    return x if dtype in (None, dtype_of(x)) else ops.cast(x, dtype=dtype)


def floating(x: Any) -> Any:
    """Cast integers and bools to float32, the default dtype of PyTorch."""
    return x if is_float(x) else ops.cast(x, dtype="float32")


def whole(x: Any) -> Any:
    """Cast integers and bools to int64, since PyTorch sums them in int64."""
    return x if is_float(x) else cast(x, "int64")


def as_bool(x: Any) -> Any:
    return cast(x, "bool")


def axes_of(dim: Any) -> list[int]:
    """Return the axes that `dim` names; an empty list means all."""
    if dim is None:
        return []
    return [dim] if isinstance(dim, int) else list(dim)


def axis_of(x: Any, dim: int) -> int:
    """Return an axis counted from the front; 0 for a scalar."""
    return dim % max(rank_of(x), 1)


def many(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple, torch.Size)) else [x]


def repeated(x: Any, n: int) -> list[Any]:
    """Return a list of n elements; a single value is repeated."""
    listed = many(x)
    return listed * n if len(listed) == 1 else listed


def sizes_of(*sizes: Any) -> list[int]:
    """Return sizes that are given separately or as one list."""
    return [int(size) for size in (many(sizes[0]) if len(sizes) == 1 else sizes)]


def result_dtype(*values: Any) -> str:
    """Return the dtype in which PyTorch computes with tensors and numbers."""
    tensors = [value for value in values if value is not None and not is_number(value)]
    groups = [
        [getattr(torch, dtype_of(x)) for x in tensors if rank_of(x)],
        [getattr(torch, dtype_of(x)) for x in tensors if not rank_of(x)],
        [torch.tensor(value).dtype for value in values if is_number(value)],
    ]
    promoted = [reduce(torch.promote_types, group) for group in groups if group]
    return str(reduce(_combine, promoted)).rpartition(".")[2]


def _combine(higher: torch.dtype, lower: torch.dtype) -> torch.dtype:
    if higher.is_floating_point:
        return higher
    if higher == torch.bool or lower.is_floating_point:
        return torch.promote_types(higher, lower)
    return higher


def promoted(*values: Any, floats: bool = False) -> list[Any]:
    """Cast tensors to their common dtype; numbers stay unchanged."""
    dtype = result_dtype(*values)
    if floats and dtype not in FLOATS:
        dtype = "float32"
    if all(is_number(value) for value in values):
        return [scalar(value, dtype) for value in values]
    return [value if is_number(value) else cast(value, dtype) for value in values]


def scalar(value: Any, dtype: str, like: Any = None) -> Any:
    """Return a scalar as a tensor with the shape of another tensor."""
    shape = [] if like is None else shape_of(like)
    return ops.fill(shape=shape, value=as_value(value, dtype), dtype=dtype)


def as_value(value: Any, dtype: str) -> float:
    """Convert a number to an attribute value; for dtype bool it is 1 or 0."""
    return float(bool(value)) if dtype == "bool" else float(value)


def in_float32(function: Adapter) -> Adapter:
    """Make a function compute 16-bit floats in float32, as PyTorch does internally."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        given = [x for x in (*args, *kwargs.values()) if hasattr(x, "dtype")]
        if not any(map(is_narrow, given)):
            return function(*args, **kwargs)
        wide = [cast(x, "float32") if is_narrow(x) else x for x in args]
        more = {k: cast(x, "float32") if is_narrow(x) else x for k, x in kwargs.items()}
        out = function(*wide, **more)
        dtype = result_dtype(*given)
        return [cast(x, dtype) for x in out] if isinstance(out, (tuple, list)) else cast(out, dtype)

    return apply


def is_narrow(x: Any) -> bool:
    return hasattr(x, "dtype") and dtype_of(x) in ("float16", "bfloat16")


def filled(x: Any, value: Any, dtype: str | None = None) -> Any:
    """Return a tensor in the shape of x, filled with one number."""
    return cast(ops.fill_like(x, value=as_value(value, dtype_of(x))), dtype)


def size_along(x: Any, axes: Sequence[int]) -> int:
    """Return the product of the lengths of `axes`, or of all axes if it is empty."""
    shape = shape_of(x)
    return math.prod(shape[axis] for axis in axes) if axes else math.prod(shape)


def flat(x: Any) -> Any:
    return ops.reshape(x, shape=[-1])


def reshaped(x: Any, shape: Sequence[int]) -> Any:
    """Reshape x, where a 0 in `shape` is a length of 0 and does not copy the length of an axis."""
    if 0 not in shape:
        return ops.reshape(x, shape=list(shape))
    others = [axis for axis, n in enumerate(shape) if n]
    order = [*others, *(axis for axis, n in enumerate(shape) if not n)]
    wide = ops.expand(flat(x), shape=[shape[axis] for axis in order])
    return ops.transpose(wide, axes=[order.index(axis) for axis in range(len(shape))])


def swapped(x: Any, first: int, second: int) -> Any:
    """Return x with two axes swapped."""
    axes = list(range(rank_of(x)))
    if not axes:
        return ops.assign(x)
    axes[first], axes[second] = axes[second], axes[first]
    return ops.transpose(x, axes=axes)


def part(x: Any, axis: int, start: int, end: int, step: int = 1) -> Any:
    """Return a slice along one axis."""
    return ops.slice(x, axes=[axis], starts=[start], ends=[end], steps=[step])
