"""The memory of one run: every array at its position, with guard bytes before and after it.

Alternatively, the pages before and after each array cannot be accessed while the kernel runs. Then
a read beyond the array terminates the process, whereas guard bytes cannot reveal reads.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from opwright.op import Meta, dtype_to_numpy, item_size, numel
from opwright_kit.testing.samples.sample import Array

GUARD_BYTES: Final = 256
"""Guard bytes before and after each array: four times the widest vector."""

PAGE_BYTES: Final = mmap.PAGESIZE

LEAST_PAGED_BYTES: Final = 4 * 2**20
"""The minimum size of an arena with guard pages: from this size on, the host allocates whole
pages."""

Side: TypeAlias = Literal["begin", "end"]
"""Which end of an array touches a guard page: its first byte, or its last byte."""

_GAP: Final = 2
"""Stride along the last axis of strided inputs, in elements."""


@dataclass(frozen=True)
class Place:
    """The position of one array.

    Attributes
    ----------
    name : str
        The slot, with a number if it has several variables.
    meta : Meta
    region : int
        Number of the image that contains it.
    offset, size_bytes : int
        Begin in the image, and size.
    index : int
        How the runtime addresses the place: the offset, or the number of the buffer.
    strides : tuple of int or None
        In elements; None if it is compact.
    """

    name: str
    meta: Meta
    region: int
    offset: int
    size_bytes: int
    index: int
    strides: tuple[int, ...] | None = None

    def share(self, meta: Meta) -> Place:
        """Return the place of another array that shares this place's memory."""
        return replace(self, meta=meta)

    def view(self, images: list[Array]) -> Array:
        """Return the array within the images."""
        dtype = dtype_to_numpy(self.meta.dtype)
        span = images[self.region][self.offset : self.offset + self.size_bytes].view(dtype)
        if self.strides is None:
            return span[: numel(self.meta.shape)].reshape(self.meta.shape)
        steps = tuple(step * dtype.itemsize for step in self.strides)
        return np.lib.stride_tricks.as_strided(span, self.meta.shape, steps)

    def fill(self, images: list[Array], byte: int) -> None:
        """Fill the array with a byte."""
        images[self.region][self.offset : self.offset + self.size_bytes] = byte

    def differs(self, before: list[Array], after: list[Array]) -> bool:
        """Return whether a byte of the array changed; gaps between strided elements do not count.

        Bytes are compared, so NaN is equal to itself.
        """
        a, b = (np.ascontiguousarray(self.view(images)) for images in (before, after))
        return a.tobytes() != b.tobytes()


class Memory:
    """Allocates places in one arena, or in separate buffers if the device cannot offset addresses.

    Parameters
    ----------
    has_arena : bool
        Whether all arrays share one region; otherwise only the end of an array is guarded.
    alignment : int
        The alignment of every position, in bytes.
    pages : {"begin", "end"}, optional
        Where each array touches a page that cannot be accessed; only with an arena.

    Attributes
    ----------
    sizes : list of int
        Bytes of each region, once closed.
    guards : list of (int, int)
        Start and end, within the arena, of each range of pages that cannot be accessed.
    """

    def __init__(self, has_arena: bool, alignment: int, pages: Side | None = None) -> None:
        self._has_arena = has_arena
        self._alignment = alignment
        self._pages = pages
        self._places: list[Place] = []
        self._end = 0
        self.sizes: list[int] = []
        self.guards: list[tuple[int, int]] = []

    def add(
        self, name: str, meta: Meta, strided: bool = False, is_workspace: bool = False
    ) -> Place:
        """Return the place of a new array.

        At a guard page, a workspace is still aligned, so it ends some bytes before the page; other
        arrays are aligned only to their items there, as feeds may be.
        """
        strides = _spread(meta.shape) if strided and meta.shape else None
        count = numel(meta.shape)
        if strides is not None and count:
            count = 1 + sum((n - 1) * step for n, step in zip(meta.shape, strides, strict=True))
        size = count * item_size(meta.dtype)
        if self._has_arena:
            offset = self._find_offset(size, is_workspace)
            self._end = offset + size
            place = Place(name, meta, 0, offset, size, offset, strides)
        else:
            region = len(self.sizes)
            self.sizes.append(_round_up(size + GUARD_BYTES, self._alignment))
            place = Place(name, meta, region, 0, size, region, strides)
        self._places.append(place)
        return place

    def _find_offset(self, size: int, is_workspace: bool) -> int:
        """Return the offset in the arena at which the next array begins."""
        if self._pages is None:
            return _round_up(self._end + GUARD_BYTES, self._alignment)
        begin = self._add_guard()
        if self._pages == "begin":
            return begin
        offset = begin + _round_up(size, PAGE_BYTES) - size
        return offset - offset % self._alignment if is_workspace else offset

    def _add_guard(self) -> int:
        """Append a guard page; return its end."""
        begin = _round_up(self._end, PAGE_BYTES)
        self.guards.append((begin, begin + PAGE_BYTES))
        return begin + PAGE_BYTES

    def close(self) -> None:
        """Fix the sizes; arrays cannot be added afterwards."""
        if self._pages is not None:
            self.sizes = [max(self._add_guard(), LEAST_PAGED_BYTES)]
        elif self._has_arena:
            self.sizes = [_round_up(self._end + GUARD_BYTES, self._alignment)]

    def fill(self, poison: int) -> list[Array]:
        """Return memory images filled with poison."""
        return [np.full(size, poison, np.uint8) for size in self.sizes]

    def find_broken_guards(self, before: list[Array], after: list[Array]) -> tuple[str, ...]:
        """Return the changes outside of every array, each with the nearest array."""
        counts: dict[str, int] = {}
        for region, (old, new) in enumerate(zip(before, after, strict=True)):
            inside = np.zeros(old.size, bool)
            places = [place for place in self._places if place.region == region]
            for place in places:
                inside[place.offset : place.offset + place.size_bytes] = True
            for at in np.flatnonzero((old != new) & ~inside).tolist():
                where = min((_distance(place, at) for place in places), key=lambda item: item[0])[1]
                counts[where] = counts.get(where, 0) + 1
        return tuple(f"{count} bytes {where}" for where, count in counts.items())


def _distance(place: Place, at: int) -> tuple[int, str]:
    if at < place.offset:
        return place.offset - at, f"before {place.name}"
    return at - place.offset - place.size_bytes, f"behind {place.name}"


def _spread(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = []
    step = _GAP
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))


def _round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
