"""Finds the readers and writers of values and memory in a graph, with their positions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opwright.lowering.graph.graph import Graph
    from opwright.lowering.graph.values import Buffer, LoweredOp, Value

OUTSIDE = -1
"""The position at which given values are written: before the first operator."""


class Uses:
    """The reads and writes in one graph.

    Only reads of data count: an operator that reads only the shape of a value, or overwrites it,
    does not keep it alive. `Edit.apply` updates a `Uses`; other changes of a graph need a new one.

    Attributes
    ----------
    position : dict of LoweredOp to int
        Indices in ``graph.ops``.
    """

    def __init__(self, graph: Graph) -> None:
        self._readers: dict[Value, dict[LoweredOp, None]] = defaultdict(dict)
        self._writer: dict[Value, LoweredOp] = {}
        # These dicts have only buffers that several values share; all dicts keep insertion order.
        self._memory_readers: dict[Buffer, dict[LoweredOp, None]] = defaultdict(dict)
        self._memory_writers: dict[Buffer, dict[LoweredOp, None]] = defaultdict(dict)
        self._lasting = {_own(value) for value, _ in graph.sinks}
        self._lasting.update(map(_own, graph.keeps))
        self._lasting.update(map(_own, graph.fetches))
        self.add(graph.ops)
        self.arrange(graph.ops)

    def add(self, ops: Iterable[LoweredOp]) -> None:
        """Add the reads and writes of operators; `arrange` sets their positions."""
        readers, writer = self._readers, self._writer
        memory_readers, memory_writers = self._memory_readers, self._memory_writers
        for op in ops:
            for values in op.data_slots() if op.definition.any_shape_only else op.inputs:
                for value in values:
                    readers[value][op] = None
                    if value.source is not None:
                        readers[value.source][op] = None
                    if value.buffer.is_shared:
                        memory_readers[value.buffer][op] = None
            for values in op.outputs:
                for value in values:
                    writer[value] = op
                    if value.buffer.is_shared:
                        memory_writers[value.buffer][op] = None

    def remove(self, ops: Iterable[LoweredOp]) -> None:
        """Remove the reads and writes of operators that are unchanged since `add`."""
        for op in ops:
            for value in op.data_reads():
                self._readers[value].pop(op, None)
                if value.source is not None:
                    self._readers[value.source].pop(op, None)
                if value.buffer.is_shared:
                    self._memory_readers[value.buffer].pop(op, None)
            for value in op.writes():
                if self._writer.get(value) is op:
                    del self._writer[value]
                if value.buffer.is_shared:
                    self._memory_writers[value.buffer].pop(op, None)

    def arrange(self, ops: Iterable[LoweredOp]) -> None:
        """Set the positions of all operators."""
        self.position = dict(zip(ops, count()))
        self._reads: dict[Buffer, list[int]] = {}  # filled on request
        self._writes: dict[Buffer, list[int]] = {}

    def written_at(self, value: Value, default: int = OUTSIDE) -> int:
        """Return the position at which a value is written, or the default for a given value."""
        op = self._writer.get(value)
        return default if op is None else self.position[op]

    def _reads_of(self, value: Value) -> list[int]:
        """Return the positions at which the memory of a value is read, in order."""
        if not value.buffer.is_shared:  # memory of only this value and its views
            return self._places(self._readers.get(_own(value), ()))
        if value.buffer not in self._reads:
            self._reads[value.buffer] = self._places(self._memory_readers.get(value.buffer, ()))
        return self._reads[value.buffer]

    def _writes_of(self, buffer: Buffer) -> list[int]:
        """Return the positions at which memory shared by several values is written, in order."""
        if buffer not in self._writes:
            self._writes[buffer] = self._places(self._memory_writers.get(buffer, ()))
        return self._writes[buffer]

    def _places(self, ops: Iterable[LoweredOp]) -> list[int]:
        return sorted([self.position[op] for op in ops])

    def readers(self, value: Value) -> tuple[LoweredOp, ...]:
        """Return the operators that read the data of a value or of a view of it, in order."""
        readers = tuple(self._readers.get(value, ()))
        if len(readers) < 2:
            return readers
        return tuple(sorted(readers, key=self.position.__getitem__))

    def is_visible(self, value: Value) -> bool:
        """Whether a value is used beyond the operators: fetched, kept, or left in the scope.

        A version of a persistable that is overwritten later does not count.
        """
        own = value.source or value
        if own in self._lasting or value.buffer.external is None:
            return own in self._lasting
        written = self.written_at(own)
        return written == OUTSIDE or written == self._writes_of(value.buffer)[-1]

    def only_reader(self, value: Value) -> LoweredOp | None:
        """Return the only reader of a value that is not visible outside the graph, or None."""
        readers = self._readers.get(value, ())
        if len(readers) != 1 or value.source is not None or self.is_visible(value):
            return None
        return next(iter(readers))

    def stays_within(self, value: Value, ops: Collection[LoweredOp]) -> bool:
        """Whether only some operators need a value."""
        for reader in self._readers.get(value, ()):
            if reader not in ops:
                return False
        if value.source is None and value.buffer.external is None:  # nearly always
            return value not in self._lasting
        return not self.is_visible(value)

    def is_read_between(self, value: Value, low: int, high: int, but: Collection[int]) -> bool:
        """Whether a value's memory is read between two positions, ignoring reads at ``but``."""
        return _any_between(self._reads_of(value), low, high, but)

    def is_written_between(self, value: Value, low: int, high: int, but: Collection[int]) -> bool:
        """Whether a value's memory is written between two positions, ignoring writes at ``but``."""
        if value.buffer.is_shared:
            return _any_between(self._writes_of(value.buffer), low, high, but)
        position = self.written_at(_own(value), low)
        return low < position < high and position not in but

    def may_move(self, op: LoweredOp, to: LoweredOp) -> bool:
        """Whether an operator can move to the position of another operator.

        An operator must not cross a write of memory that it reads, or an access to memory that it
        writes. The operator ``to`` itself does not count, because `op` is merged into it.
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
        """Whether a value is in its buffer just before a position, ignoring writes at ``but``."""
        begin = self.written_at(_own(value))
        return begin < position and not self.is_written_between(value, begin, position, but)


def find_late(graph: Graph) -> tuple[set[LoweredOp], set[Value]]:
    """Return the operators and values that depend on late feeds, including the late feeds.

    The result includes operators that write to the memory of such a value and, after the first
    operator with an effect, all later operators with an effect.
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
    """Whether a sorted list has a number that is strictly between two limits and not in ``but``."""
    if len(positions) < 2:  # nearly always
        return bool(positions) and low < positions[0] < high and positions[0] not in but
    begin, end = bisect_right(positions, low), bisect_left(positions, high)
    if not but:
        return begin < end
    return any(positions[i] not in but for i in range(begin, end))
