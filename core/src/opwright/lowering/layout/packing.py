"""Packs large buffers into one block: each lies where nothing lies that lives at the same time.

The largest are placed first, each at the lowest place that is free for as long as it lives. For a
training step this comes to what lives at its worst moment; slots, which are as large as the largest
value that ever lay in them, take a third more.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Final

from opwright.lowering.graph.values import Buffer

LEAST_PACKED_BYTES: Final = 1 << 16
"""Smaller buffers share slots: what they could save is not worth the search."""

MOST_PACKED: Final = 512
"""Each is compared with all before it. Of more, the next smaller ones get a block of their own."""


def pack(buffers: Sequence[Buffer], alignment: int) -> int:
    """Set the offset of each buffer in a block; return the size of the block in bytes.

    Buffers come by size, the largest first. They live from their position ``first`` to their
    position ``last``, both included.
    """
    placed: list[tuple[int, int, int, int]] = []  # begin, end, first, last; by begin
    for buffer in buffers:
        size = -(-buffer.size // alignment) * alignment
        first, last, begin = buffer.first, buffer.last, 0
        for other_begin, other_end, other_first, other_last in placed:
            if other_first > last or other_last < first:
                continue
            if other_begin - begin >= size:
                break
            begin = max(begin, other_end)
        buffer.offset = begin
        insort(placed, (begin, begin + size, first, last))
    return max((end for _, end, _, _ in placed), default=0)
