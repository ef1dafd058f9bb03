"""Finds the readers and writers of values and memory in a graph, with their positions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opwright.lowering.graph.graph import Graph
    from opwright.lowering.graph.values import Buffer, LoweredOp, Value

OUTSIDE = -1
"""The position at which given values were written: before the first operator."""


class Uses:
    """Reads and writes of one graph, at the time when this was made.

    Only reads of data count: an operator that reads only the shape of a value, or overwrites it,
    does not keep it alive.

    Attributes
    ----------
    position : dict of LoweredOp to int
        Places in ``graph.ops``.
    written_at : dict of Value to int
        Where a value is written; without values that are given from outside.
    """

    def __init__(self, graph: Graph) -> None:
        self.position: dict[LoweredOp, int] = {}
        self.written_at: dict[Value, int] = {}
        self._readers: dict[Value, list[LoweredOp]] = {}
        self._reads: dict[Buffer, list[int]] | None = None  # at the first request
        self._writes: dict[Buffer, list[int]] = {}  # of memory that is written more than once
        self._lasting = {_own(value) for value, _ in graph.sinks}
        self._lasting.update(map(_own, graph.keeps))
        self._lasting.update(map(_own, graph.fetches))
        self._enter(graph.ops)

    def _enter(self, ops: Iterable[LoweredOp]) -> None:
        readers_of, position_of, written_at = self._readers, self.position, self.written_at
        for position, op in enumerate(ops):
            position_of[op] = position
            for values in op.data_slots() if op.definition.any_shape_only else op.inputs:
                for value in values:
                    readers = readers_of.get(value)
                    if readers is None:
                        readers_of[value] = [op]
                    elif readers[-1] is not op:
                        readers.append(op)
                    source = value.source
                    if source is not None and op not in readers_of.setdefault(source, [])[-1:]:
                        readers_of[source].append(op)
            for values in op.outputs:
                for value in values:
                    written_at[value] = position
                    if value.buffer.is_shared:
                        self._writes.setdefault(value.buffer, []).append(position)

    def _reads_of(self, value: Value) -> list[int]:
        """Return where the memory of a value is read, in order."""
        if not value.buffer.is_shared:  # memory of this value and its views alone
            return [self.position[op] for op in self._readers.get(_own(value), ())]
        if self._reads is None:
            reads: dict[Buffer, list[int]] = defaultdict(list)
            for read, readers in self._readers.items():
                if read.buffer.is_shared:
                    reads[read.buffer] += map(self.position.__getitem__, readers)
            for positions in reads.values():
                positions.sort()
            self._reads = dict(reads)
        return self._reads.get(value.buffer, [])

    def readers(self, value: Value) -> tuple[LoweredOp, ...]:
        """Return the operators that read the data of a value or of a view of it, in order."""
        return tuple(self._readers.get(value, ()))

    def is_visible(self, value: Value) -> bool:
        """Whether a value is used beyond the operators: fetched, kept, or left in the scope.

        A version of a persistable that is overwritten later is not.
        """
        own = value.source or value
        if own in self._lasting or value.buffer.external is None:
            return own in self._lasting
        written = self.written_at.get(own, OUTSIDE)
        return written == OUTSIDE or written == self._writes[value.buffer][-1]

    def only_reader(self, value: Value) -> LoweredOp | None:
        """Return the only reader of a value that is not visible outside, else None."""
        readers = self._readers.get(value, ())
        if len(readers) != 1 or value.source is not None or self.is_visible(value):
            return None
        return readers[0]

    def stays_within(self, value: Value, ops: set[LoweredOp]) -> bool:
        """Whether only some operators need a value."""
        for reader in self._readers.get(value, ()):
            if reader not in ops:
                return False
        if value.source is None and value.buffer.external is None:  # nearly always
            return value not in self._lasting
        return not self.is_visible(value)

    def is_read_between(self, value: Value, low: int, high: int, but: Collection[int]) -> bool:
        """Whether memory of a value is read between two positions, those of ``but`` left out."""
        return _any_between(self._reads_of(value), low, high, but)

    def is_written_between(self, value: Value, low: int, high: int, but: Collection[int]) -> bool:
        """Whether memory of a value is written between two positions, without those of ``but``."""
        if value.buffer.is_shared:
            return _any_between(self._writes.get(value.buffer, ()), low, high, but)
        position = self.written_at.get(_own(value), low)
        return low < position < high and position not in but

    def may_move(self, op: LoweredOp, to: LoweredOp) -> bool:
        """Whether an operator can run where another one stands.

        It may cross no write of memory that it reads, and no read or write of memory that it
        writes. The operator ``to`` itself does not count: `op` is merged into it.
        """
        low, high = sorted((self.position[op], self.position[to]))
        for value in op.data_reads():
            if self.is_written_between(value, low, high, ()):
                return False
        for value in op.writes():
            place = (value, low, high, ())
            if self.is_read_between(*place) or self.is_written_between(*place):
                return False
        return not op.has_effect

    def holds(self, value: Value, position: int, but: Collection[int] = ()) -> bool:
        """Whether memory holds a value just before a position, writes at ``but`` left out."""
        begin = self.written_at.get(_own(value), OUTSIDE)
        return begin < position and not self.is_written_between(value, begin, position, but)


def find_late(graph: Graph) -> tuple[set[LoweredOp], set[Value]]:
    """Return the operators that depend on a late feed, with late feeds and what those write.

    These are too: what writes to the memory of such a value, and after the first one with an effect
    all others with one.
    """
    ops: set[LoweredOp] = set()
    values = {graph.feeds[name] for name in graph.late_feeds if name in graph.feeds}
    buffers: set[Buffer] = set()
    has_effect = False
    for op in graph.ops if values else ():
        written = op.writes()
        is_late = not values.isdisjoint(map(_own, op.data_reads())) or (
            has_effect and op.has_effect
        )
        if is_late or not buffers.isdisjoint(value.buffer for value in written):
            ops.add(op)
            values.update(written)
            buffers.update(value.buffer for value in written)
            has_effect = has_effect or op.has_effect
    return ops, values


def _own(value: Value) -> Value:
    return value.source or value


def _any_between(positions: Sequence[int], low: int, high: int, but: Collection[int]) -> bool:
    """Whether a sorted list has a member strictly between two numbers that is not in ``but``."""
    if len(positions) < 2:  # nearly always
        return bool(positions) and low < positions[0] < high and positions[0] not in but
    begin, end = bisect_right(positions, low), bisect_left(positions, high)
    if not but:
        return begin < end
    return any(positions[i] not in but for i in range(begin, end))
