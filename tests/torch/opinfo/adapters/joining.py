"""Adapters for operators that join or split tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    axis_of,
    cast,
    flat,
    many,
    ops,
    part,
    rank_of,
    reshaped,
    result_dtype,
    shape_of,
)
from .shapes import at_least


def concat(tensors: Sequence[Any], dim: int = 0) -> Any:
    dtype = result_dtype(*tensors)
    kept = [cast(x, dtype) for x in tensors if shape_of(x) != [0]]
    if not kept:
        return cast(ops.assign(tensors[0]), dtype)
    return ops.concat(kept, axis=axis_of(kept[0], dim))


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    dtype = result_dtype(*tensors)
    return ops.stack([cast(x, dtype) for x in tensors], axis=dim % (rank_of(tensors[0]) + 1))


def joined(rank: int, axis: int) -> Adapter:
    def apply(tensors: Sequence[Any]) -> Any:
        return concat([at_least(rank)(x) for x in tensors], axis)

    return apply


def hstack(tensors: Sequence[Any]) -> Any:
    raised = [at_least(1)(x) for x in tensors]
    return concat(raised, 0 if rank_of(raised[0]) == 1 else 1)


def column_stack(tensors: Sequence[Any]) -> Any:
    return concat([reshaped(x, [-1, 1]) if rank_of(x) < 2 else x for x in tensors], 1)


def cut(x: Any, sections: Sequence[int], axis: int) -> list[Any]:
    """Split into chunks of the given lengths."""
    starts = [sum(sections[:i]) for i in range(len(sections))]
    return [part(x, axis, start, start + n) for start, n in zip(starts, sections)]


def split(x: Any, split_size: Any, dim: int = 0) -> list[Any]:
    axis = axis_of(x, dim)
    if not isinstance(split_size, int):
        return cut(x, list(split_size), axis)
    length = shape_of(x)[axis]
    count = max(-(-length // split_size), 1) if split_size else 1
    return cut(x, [min(split_size, length - i * split_size) for i in range(count)], axis)


def chunk(x: Any, chunks: int, dim: int = 0) -> list[Any]:
    length = shape_of(x)[axis_of(x, dim)]
    return split(x, max(-(-length // chunks), 1), dim)


def tensor_split(x: Any, indices_or_sections: Any, dim: int = 0) -> list[Any]:
    axis = axis_of(x, dim)
    length = shape_of(x)[axis]
    given = indices_or_sections
    if isinstance(given, torch.Tensor):
        given = given.tolist()
    if isinstance(given, int):
        less, more = divmod(length, given)
        return cut(x, [less + (i < more) for i in range(given)], axis)
    ends = [slice(None, end).indices(length)[1] for end in given]
    starts = [0, *ends]
    return [part(x, axis, s, max(e, s)) for s, e in zip(starts, [*ends, length])]


def hsplit(x: Any, given: Any) -> list[Any]:
    return tensor_split(x, given, 0 if rank_of(x) == 1 else 1)


def unbind(x: Any, dim: int = 0) -> list[Any]:
    axis = axis_of(x, dim)
    return list(ops.unstack(x, axis=axis, num=shape_of(x)[axis])) if shape_of(x)[axis] else []


def block_diag(*tensors: Any) -> Any:
    tensors = tuple(at_least(2)(x) for x in tensors)
    dtype, width = result_dtype(*tensors), sum(shape_of(x)[1] for x in tensors)
    rows, before = [], 0
    for x in tensors:
        columns = shape_of(x)[1]
        paddings = [0, 0, before, width - before - columns]
        rows.append(ops.pad(cast(x, dtype), paddings=paddings))
        before += columns
    return ops.concat(rows, axis=0)


def meshgrid(*tensors: Any, indexing: str = "ij") -> list[Any]:
    given = many(tensors[0]) if len(tensors) == 1 else list(tensors)
    given = [reshaped(x, [-1]) for x in given]
    swap = indexing == "xy" and len(given) > 1
    places = [1, 0, *range(2, len(given))] if swap else list(range(len(given)))
    lengths = [0] * len(given)
    for place, x in zip(places, given):
        lengths[place] = shape_of(x)[0]
    return [
        ops.expand(
            reshaped(x, [-1 if i == place else 1 for i in range(len(given))]),
            shape=lengths,
        )
        for place, x in zip(places, given)
    ]


def cartesian_prod(*tensors: Any) -> Any:
    if len(tensors) == 1:
        return ops.assign(tensors[0])
    return ops.stack([flat(x) for x in meshgrid(*tensors)], axis=1)


def combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    import itertools

    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = torch.tensor(list(choose(range(shape_of(x)[0]), r)), dtype=torch.int64)
    if not places.numel():
        return reshaped(part(x, 0, 0, 0), [0, r])
    return ops.gather(x, places)


ADAPTERS: Final[dict[str, Adapter]] = {
    **dict.fromkeys(("split", "split_with_sizes", "split_with_sizes_copy", "unsafe_split"), split),
    **dict.fromkeys(("chunk", "unsafe_chunk"), chunk),
    **dict.fromkeys(("unbind", "unbind_copy"), unbind),
    "block_diag": block_diag,
    "cartesian_prod": cartesian_prod,
    "cat": concat,
    "column_stack": column_stack,
    "combinations": combinations,
    "dsplit": lambda x, given: tensor_split(x, given, 2),
    "dstack": joined(3, 2),
    "hsplit": hsplit,
    "hstack": hstack,
    "meshgrid": meshgrid,
    "stack": stack,
    "tensor_split": tensor_split,
    "vsplit": lambda x, given: tensor_split(x, given, 0),
    "vstack": joined(2, 0),
}
