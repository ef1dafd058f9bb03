"""Adapters for operators that move, repeat, join or split tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    UnmappedError,
    axes_of,
    axis_of,
    flat,
    many,
    ops,
    part,
    rank_of,
    reshaped,
    shape_of,
    sizes_of,
    swapped,
    whole,
)


def reshape(x: Any, *shape: Any, **kwargs: Any) -> Any:
    given = shape[0] if shape else kwargs.get("shape", kwargs.get("dtype"))
    if isinstance(given, torch.dtype):
        raise UnmappedError("bits in another dtype")
    return reshaped(x, sizes_of(*shape) if shape else sizes_of(given))


def reshape_as(x: Any, other: Any) -> Any:
    return reshaped(x, shape_of(other))


def expand(x: Any, *shape: Any) -> Any:
    return ops.expand(x, shape=sizes_of(*shape))


def expand_as(x: Any, other: Any) -> Any:
    return ops.expand(x, shape=shape_of(other))


def broadcast_tensors(*tensors: Any) -> list[Any]:
    shape = list(torch.broadcast_shapes(*map(shape_of, tensors)))
    return [ops.expand(x, shape=shape) for x in tensors]


def permute(x: Any, *dims: Any, **kwargs: Any) -> Any:
    axes = [axis_of(x, dim) for dim in sizes_of(*dims, *kwargs.values())]
    return ops.transpose(x, axes=axes) if axes else ops.assign(x)


def transpose(x: Any, dim0: int, dim1: int) -> Any:
    return swapped(x, dim0, dim1)


def transposed(x: Any) -> Any:
    return ops.transpose(x) if rank_of(x) > 1 else ops.assign(x)


def swap_last(x: Any) -> Any:
    return swapped(x, -1, -2) if rank_of(x) > 1 else ops.assign(x)


def movedim(x: Any, source: Any, destination: Any) -> Any:
    sources = [axis_of(x, axis) for axis in axes_of(source)]
    targets = [axis_of(x, axis) for axis in axes_of(destination)]
    rest = iter([axis for axis in range(rank_of(x)) if axis not in sources])
    taken = dict(zip(targets, sources))
    axes = [taken[i] if i in taken else next(rest) for i in range(rank_of(x))]
    return ops.transpose(x, axes=axes) if axes else ops.assign(x)


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if not rank_of(x):
        return reshaped(x, [1])
    return ops.flatten(x, start_axis=start_dim, stop_axis=end_dim)


def unflatten(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    axis, shape = axis_of(x, dim), shape_of(x)
    return reshaped(x, [*shape[:axis], *sizes, *shape[axis + 1 :]])


def squeeze(x: Any, dim: Any = None) -> Any:
    shape = shape_of(x)
    wanted = range(len(shape)) if dim is None else [axis_of(x, axis) for axis in axes_of(dim)]
    axes = [axis for axis in wanted if shape and shape[axis] == 1]
    return ops.squeeze(x, axis=axes) if axes else ops.assign(x)


def unsqueeze(x: Any, dim: int) -> Any:
    return ops.unsqueeze(x, axis=[dim % (rank_of(x) + 1)])


def at_least(rank: int) -> Adapter:
    def one(x: Any) -> Any:
        shape = shape_of(x)
        if len(shape) >= rank:
            return ops.assign(x)
        before = 1 if len(shape) == 1 and rank > 1 else 0
        after = rank - before - len(shape)
        return reshaped(x, [1] * before + shape + [1] * after)

    def apply(*tensors: Any) -> Any:
        listed = many(tensors[0]) if len(tensors) == 1 else tensors
        results = [one(x) for x in listed]
        return results[0] if len(results) == 1 else results

    return apply


def tile(x: Any, *dims: Any) -> Any:
    repeats = sizes_of(*dims)
    repeats = [1] * (rank_of(x) - len(repeats)) + repeats
    x = reshaped(x, [1] * (len(repeats) - rank_of(x)) + shape_of(x))
    return ops.tile(x, repeats=repeats) if repeats else ops.assign(x)


def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    axes = axes_of(dims)
    return ops.roll(x, shift=many(shifts), axis=axes)


def rot90(x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    first, second = (axis_of(x, axis) for axis in dims)
    if k % 4 == 2:
        return ops.flip(x, axis=[first, second])
    if k % 4 == 1:
        return swapped(ops.flip(x, axis=[second]), first, second)
    return swapped(ops.flip(x, axis=[first]), first, second) if k % 4 else ops.assign(x)


def flip(x: Any, dims: Any) -> Any:
    axes = axes_of(dims)
    return ops.flip(x, axis=axes) if axes else ops.assign(x)


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    others = [axis for axis in range(rank_of(x)) if axis not in (first, second)]
    shape = shape_of(x)
    rows, columns = shape[first], shape[second]
    row, column = max(-offset, 0), max(offset, 0)
    n = max(min(rows - row, columns - column), 0)
    lines = reshaped(
        ops.transpose(x, axes=[*others, first, second]),
        shape=[*(shape[axis] for axis in others), rows * columns],
    )
    start = row * columns + column
    end = start + (n - 1) * (columns + 1) + 1 if n else start
    return part(lines, len(others), start, end, columns + 1)


def diag(x: Any, k: int = 0) -> Any:
    return ops.diag(x, k=k)


def linalg_diagonal(x: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    return diagonal(x, offset, dim1, dim2)


def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    shape = shape_of(x)
    rank, n, m = len(shape) + 1, shape[-1], shape[-1] + abs(offset)
    # Row i must have x[i] in column i. Each element is padded with m zeros, and the result is then
    # read in rows of m elements.
    wide = reshaped(x, [*shape, 1])
    wide = ops.pad(wide, paddings=[0, 0] * len(shape) + [0, m])
    lines = reshaped(wide, [*shape[:-1], n * (m + 1)])
    lines = part(lines, len(shape) - 1, 0, n * m) if n else lines
    matrix = reshaped(lines, [*shape[:-1], n, m])
    matrix = ops.pad(matrix, paddings=[0, 0] * (rank - 2) + [0, m - n, 0, 0])
    if offset:
        matrix = ops.roll(matrix, shift=[abs(offset)], axis=[rank - 1 if offset > 0 else rank - 2])
    if offset < 0:
        matrix = ops.roll(matrix, shift=[0], axis=[rank - 1])
    others = [axis for axis in range(rank) if axis not in (dim1 % rank, dim2 % rank)]
    places = {dim1 % rank: rank - 2, dim2 % rank: rank - 1}
    places |= {axis: i for i, axis in enumerate(others)}
    return ops.transpose(matrix, axes=[places[i] for i in range(rank)])


def diagflat(x: Any, offset: int = 0) -> Any:
    return diag_embed(flat(x), offset)


def triangle(op: str) -> Adapter:
    return lambda x, diagonal=0: getattr(ops, op)(x, k=diagonal)


def narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    axis = axis_of(x, dim)
    first = int(start) % max(shape_of(x)[axis], 1) if int(start) < 0 else int(start)
    return part(x, axis, first, first + length)


def select(x: Any, dim: int, index: int) -> Any:
    axis = axis_of(x, dim)
    place = index % shape_of(x)[axis]
    return ops.squeeze(part(x, axis, place, place + 1), axis=[axis])


def slice_(
    x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    axis = axis_of(x, dim)
    first, last, _ = slice(start, end).indices(shape_of(x)[axis])
    return part(x, axis, first, max(first, last), step)


def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    if not rank_of(x):
        return reshaped(x, [1])
    axis = axis_of(x, dimension)
    count = (shape_of(x)[axis] - size) // step + 1
    columns = [part(x, axis, i, i + (count - 1) * step + 1, step) for i in range(size)]
    return ops.stack(columns, axis=rank_of(x))


def repeat_interleave(
    x: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    if repeats is None:
        raise UnmappedError("positions by counts")
    x = flat(x) if dim is None else x
    axis = axis_of(x, dim or 0)
    if not isinstance(repeats, int):
        counts = repeats.reshape(-1).tolist()
        counts = counts * shape_of(x)[axis] if len(counts) == 1 else counts
        places = [i for i, count in enumerate(counts) for _ in range(count)]
        return ops.index_select(x, torch.tensor(places, dtype=torch.int64), axis=axis)
    if not rank_of(x):
        return ops.expand(x, shape=[repeats])
    shape = shape_of(x)
    wide = ops.unsqueeze(x, axis=[axis + 1])
    wide = ops.expand(wide, shape=[*shape[: axis + 1], repeats, *shape[axis + 1 :]])
    return reshaped(wide, [*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]])


def sum_to_size(x: Any, *size: Any) -> Any:
    target = sizes_of(*size)
    leading = rank_of(x) - len(target)
    shape = shape_of(x)
    axes = [*range(leading)]
    axes += [i for i in range(leading, len(shape)) if shape[i] != target[i - leading]]
    out = ops.sum(whole(x), axis=axes) if axes or not shape else ops.assign(x)
    return reshaped(out, target)


def as_strided(
    x: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    places = strided_places(size, stride, storage_offset or 0)
    return ops.gather(flat(x), places)


def strided_places(size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
    """Return the memory offsets of the elements of a view, as a constant."""
    count = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride)) if 0 not in size else 0
    return torch.as_strided(torch.arange(max(count, offset)), size, stride, offset).contiguous()


def as_strided_scatter(
    x: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: Any = None
) -> Any:
    places = strided_places(size, stride, storage_offset or 0)
    out = ops.scatter(flat(x), places.reshape(-1), flat(src))
    return reshaped(out, shape_of(x))


def channel_shuffle(x: Any, groups: int) -> Any:
    n, channels, *rest = shape_of(x)
    split_up = reshaped(x, [n, groups, channels // groups, *rest])
    return reshaped(swapped(split_up, 1, 2), [n, channels, *rest])


def pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    *lead, c, h, w = shape_of(x)
    n = math.prod(lead)
    out = ops.pixel_shuffle(reshaped(x, [n, c, h, w]), factor=upscale_factor)
    return reshaped(out, [*lead, *shape_of(out)[1:]])


def pixel_unshuffle(x: Any, downscale_factor: int) -> Any:
    r = downscale_factor
    *lead, c, h, w = shape_of(x)
    k = len(lead)
    split_up = reshaped(x, [*lead, c, h // r, r, w // r, r])
    axes = [*range(k), k, k + 2, k + 4, k + 1, k + 3]
    return reshaped(ops.transpose(split_up, axes=axes), [*lead, c * r * r, h // r, w // r])


ADAPTERS: Final[dict[str, Adapter]] = {
    **dict.fromkeys(("permute", "permute_copy"), permute),
    **dict.fromkeys(("transpose", "transpose_copy"), transpose),
    **dict.fromkeys(("T", "H", "t", "t_copy"), transposed),
    **dict.fromkeys(("mT", "mH"), swap_last),
    **dict.fromkeys(("reshape", "view", "view_copy"), reshape),
    **dict.fromkeys(("reshape_as", "view_as"), reshape_as),
    **dict.fromkeys(("expand", "expand_copy", "broadcast_to"), expand),
    **dict.fromkeys(("squeeze", "squeeze_copy"), squeeze),
    **dict.fromkeys(("unsqueeze", "unsqueeze_copy"), unsqueeze),
    **dict.fromkeys(("tile", "repeat"), tile),
    **dict.fromkeys(("narrow", "narrow_copy"), narrow),
    **dict.fromkeys(("unfold", "unfold_copy"), unfold),
    **dict.fromkeys(("diagonal", "diagonal_copy"), diagonal),
    **dict.fromkeys(("as_strided", "as_strided_copy"), as_strided),
    "as_strided_scatter": as_strided_scatter,
    "atleast_1d": at_least(1),
    "atleast_2d": at_least(2),
    "atleast_3d": at_least(3),
    "broadcast_tensors": broadcast_tensors,
    "diag": diag,
    "diag_embed": diag_embed,
    "diagflat": diagflat,
    "expand_as": expand_as,
    "flatten": flatten,
    "flip": flip,
    "fft.fftshift": lambda x, dim=None: ops.fftshift(x, axis=axes_of(dim)),
    "fft.ifftshift": lambda x, dim=None: ops.ifftshift(x, axis=axes_of(dim)),
    "fliplr": lambda x: ops.flip(x, axis=[1]),
    "flipud": lambda x: ops.flip(x, axis=[0]),
    "linalg.diagonal": linalg_diagonal,
    "movedim": movedim,
    "nn.functional.channel_shuffle": channel_shuffle,
    "nn.functional.pixel_shuffle": pixel_shuffle,
    "nn.functional.pixel_unshuffle": pixel_unshuffle,
    "ravel": flat,
    "repeat_interleave": repeat_interleave,
    "roll": roll,
    "rot90": rot90,
    "select": select,
    "slice": slice_,
    "sum_to_size": sum_to_size,
    "tril": triangle("tril"),
    "triu": triangle("triu"),
    "unflatten": unflatten,
}
