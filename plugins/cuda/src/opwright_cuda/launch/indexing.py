"""Shapes as kernels read them: merged dimensions, strides and precomputed dividers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import Refuse
from opwright_cuda.launch.arguments import Struct

MAX_RANK: Final = 8
"""``kMaxRank`` of kernel.h."""

NARROW: Final = 2**31
"""The kernels can compute smaller indices in 32 bits."""


class Layout(NamedTuple):
    """Dimensions of an output and strides of its inputs, in elements, first dimension first."""

    dims: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def broadcast_strides(shape: Sequence[int], out: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a compact array broadcast to shape `out`, with 0 for broadcast axes."""
    strides = []
    step = 1
    padded = (1,) * (len(out) - len(shape)) + tuple(shape)
    for dim in reversed(padded):
        strides.append(0 if dim == 1 else step)
        step *= dim
    return tuple(reversed(strides))


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a compact row-major array."""
    strides = []
    step = 1
    for dim in reversed(shape):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


def merge(dims: Sequence[int], strides: Sequence[Sequence[int]]) -> Layout:
    """Merge dimensions as far as possible."""
    kept: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, dim in enumerate(dims):
        if dim == 1:
            continue
        if kept and all(s[-1] == of[axis] * dim for s, of in zip(steps, strides, strict=True)):
            kept[-1] *= dim
            for s, of in zip(steps, strides, strict=True):
                s[-1] = of[axis]
            continue
        kept.append(dim)
        for s, of in zip(steps, strides, strict=True):
            s.append(of[axis])
    return Layout(tuple(kept), tuple(tuple(s) for s in steps))


def divider(divisor: int) -> Struct:
    """Return ``Divider`` of kernel.h, which divides by 1 to 2**31 - 1 through multiplication."""
    shift = (divisor - 1).bit_length()
    multiplier = ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1
    return Struct(np.uint32(divisor), np.uint32(multiplier), np.uint32(shift))


def layout_struct(layout: Layout) -> Struct:
    """Return ``Layout`` of layout.h, from the last dimension to the first, padded with ones.

    Raises
    ------
    Refuse
        If there are too many dimensions.
    """
    rank = len(layout.dims)
    if rank > MAX_RANK:
        raise Refuse(f"{rank} dimensions remain after merging, at most {MAX_RANK} are supported")
    rest = MAX_RANK - rank
    dims = np.array([*reversed(layout.dims), *[1] * rest], np.int64)
    strides = [np.array([*reversed(s), *[0] * rest], np.int64) for s in layout.strides]
    dividers = [divider(int(dim) if dim < NARROW else 1) for dim in dims]
    return Struct(dims, *(strides or [np.zeros(MAX_RANK, np.int64)]), *dividers, np.int32(rank))
