"""Packs large buffers into one block, so that buffers that live at the same time do not overlap.

The largest are placed first, each at the lowest offset that is free during its lifetime. For a
training step the block is as large as the peak of live bytes; slots, as large as the largest
value that was ever in them, take a third more.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Final

from opwright.lowering.graph.values import Buffer

LEAST_PACKED_BYTES: Final = 1 << 16
"""Smaller buffers share slots: the search costs more than it saves."""

MOST_PACKED: Final = 512
"""Each is compared with all before it, so further, smaller ones get another block."""


def pack(buffers: Sequence[Buffer], alignment: int) -> int:
    """Set the offset of each buffer in a block; return the size of the block in bytes.

    Buffers are sorted by size, the largest first. They live from their position ``first`` to their
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
