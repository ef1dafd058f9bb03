"""Cuts a graph into two halves; the second depends on late feeds, as a backward pass does.

Passes have rewritten the whole graph, so both halves run the kernels of one plan. The first half
saves the values that the second half reads, in as few bytes as possible: values that are cheap to
recompute are recomputed, and a value that is used only for its shape is not saved.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Final

from opwright.errors import FeedError, ProgramError
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.separation import least_separation
from opwright.lowering.graph.uses import find_late
from opwright.lowering.graph.values import (
    Buffer,
    External,
    LoweredOp,
    Role,
    Value,
    copy_op,
    external_value,
    new_value,
)
from opwright.lowering.kernels.estimate import BYTES_PER_NS, estimate_ns
from opwright.lowering.request import LowerRequest

LEAST_BYTES: Final = 1 << 12
"""Minimum number of bytes that an operator must write to be worth recomputing."""

QUICK_NS_PER_BYTE: Final = 4 / BYTES_PER_NS
"""The maximum cost in ns per byte on one thread, enough to read three bytes per written byte."""

MOST_AGAIN: Final = 0.04
"""The maximum share of a plan's time that recomputed operators may take."""


Halves = tuple[list[tuple[Graph, LowerRequest]], dict[str, int | str], dict[str, tuple[int, ...]]]
"""Two graphs with their requests; the source of each non-late feed of the second graph, which is a
fetch position or a feed name of the first; and the shapes of the late feeds."""


def cut_graph(graph: Graph, request: LowerRequest) -> Halves:
    """Cut a graph for which kernels have been chosen.

    Raises FeedError if a fetch of the first half depends on a late feed, and ProgramError if a
    shape is known only at run time.
    """
    if graph.continuation is not None:
        raise ProgramError(
            f"cut: shapes must be known before the run, got {graph.continuation.dynamic[0]!r}, "
            "whose shape depends on values; compile the program as a whole"
        )
    first = _First(graph, request)
    second = _Second(first)
    on_device = [n for n, v in second.half.feeds.items() if first.stays and v.buffer.device is None]
    given = request.given._replace(on_device=frozenset(on_device))
    parts = [(first.half, request), (second.half, request._replace(given=given))]
    feeds = second.half.feeds
    handed: dict[str, int | str] = {n: n for n in feeds if n not in graph.late_feeds}
    handed.update(zip(feeds, first.sources, strict=False))
    return parts, handed, {n: feeds[n].meta.shape for n in feeds if n in graph.late_feeds}


def _reads(op: LoweredOp) -> list[Value]:
    return [value.source or value for value in op.data_reads()]


class _First:
    """The half that runs first.

    ``saved`` are the values for the second half, ``again`` are the operators that the second half
    reruns, and ``sources`` are the positions of the saved values among the fetches of this half.
    """

    def __init__(self, graph: Graph, request: LowerRequest) -> None:
        self.graph, self.request = graph, request
        self.late_ops, self.late_values = find_late(graph)
        results = [value for value, _ in graph.sinks] or graph.keeps
        n_early = request.fetches.n_early
        self.stays = request.fetches.on_device and not graph.target.device.is_host
        self.results, self.late_results = results[:n_early], results[n_early:]
        self._early = [op for op in graph.ops if op not in self.late_ops]
        self.writer: dict[Value, LoweredOp] = {}
        self.last: dict[Buffer, Value] = {}  # the final value of each buffer that this half writes
        self._rewritten: set[Buffer] = set()
        for op in self._early:
            for value in op.writes():
                self._rewritten.update([value.buffer] if value.buffer in self.last else ())
                self.writer[value], self.last[value.buffer] = op, value
        self.overwritten = {value.buffer for value in self.late_values}
        for value in self.results:
            if (value.source or value) in self.late_values:
                raise FeedError(
                    f"fetch: {value.name!r} depends on a late feed ({list(request.given.late)}); "
                    "name it in late_fetch"
                )
        self._required = self._close(self.results, lambda op: not self._is_repeatable(op))
        wanted = [value for op in graph.ops if op in self.late_ops for value in _reads(op)]
        wanted += [value.source or value for value in self.late_results]
        needed = [v for v in dict.fromkeys(wanted) if v not in self.late_values]
        budget_ns = MOST_AGAIN * sum(self._cost_ns(op) for op in graph.ops)
        for self._ns_per_byte in (QUICK_NS_PER_BYTE, QUICK_NS_PER_BYTE / 2, 0):
            self.saved = least_separation(needed, self._sources_of, self._size_of)
            self.again = self._find_again(needed)
            if sum(map(self._cost_ns, self.again & self._required)) <= budget_ns:
                break
        self.sources: list[int] = []
        self.half = self._make()

    def _close(self, values: list[Value], also: Callable[[LoweredOp], bool]) -> set[LoweredOp]:
        """Return early operators that `values` need or `also` selects, with dependencies."""
        needed = {value.source or value for value in values}
        closed = set()
        for op in reversed(self._early):
            if not needed.isdisjoint(op.writes()) or also(op):
                closed.add(op)
                needed.update(_reads(op))
        return closed

    def _is_repeatable(self, op: LoweredOp) -> bool:
        """Whether a rerun in the second half is bitwise identical and free of side effects."""
        if op.has_effect or op.children or op.is_dynamic or op.definition.alias_slots:
            return False
        if any(not v.buffer.is_owned or v.buffer in self._rewritten for v in op.writes()):
            return False
        if op.is_copy:
            return op.inputs[0][0].buffer.device == op.outputs[0][0].buffer.device
        return op.entry is not None and op.entry.deterministic and not op.entry.blocks

    def _sources_of(self, value: Value) -> list[Value] | None:
        """See `least_separation`."""
        buffer, op = value.buffer, self.writer.get(value)
        if buffer.external is not None:
            is_there = buffer in self.overwritten and self.last.get(buffer, value) is value
            return [] if is_there or buffer not in self.last else None
        if op is None or value in self.results or not self._is_repeatable(op):
            return None
        is_free = op not in self._required or value.is_constant
        return _reads(op) if is_free or self._is_quick(op) else None

    def _size_of(self, value: Value) -> int:
        return 0 if value in self.results else value.buffer.size  # the caller has results anyway

    def _is_quick(self, op: LoweredOp) -> bool:
        size = sum(value.buffer.size for value in op.writes())
        is_large = size >= LEAST_BYTES and not op.is_copy and not op.prepared.needs_gil
        return is_large and self._cost_ns(op) * self.graph.n_threads <= self._ns_per_byte * size

    def _cost_ns(self, op: LoweredOp) -> int:
        if op.prepared is None or all(value.is_constant for value in op.writes()):
            return 0
        return estimate_ns(op, self.graph.device)

    def _find_again(self, needed: list[Value]) -> set[LoweredOp]:
        again: set[LoweredOp] = set()
        pending = list(needed)
        while pending:
            value = pending.pop()
            op = self.writer.get(value)
            if op is None or op in again or value in self.saved or not value.buffer.is_owned:
                continue
            again.add(op)
            pending += _reads(op)
        return again

    def _make(self) -> Graph:
        """Return the graph, with the saved values appended to its fetches."""
        results = list(self.results)
        positions = {value: position for position, value in enumerate(results)}
        copies: dict[LoweredOp | None, list[LoweredOp]] = {}
        for value in self.saved:
            self.sources.append(positions.get(value, len(results)))
            if value in positions:
                continue
            writer, own = self.writer.get(value), value
            if value.buffer.external is not None or self.last[value.buffer] is not value:
                own = new_value(value.name, value.meta)  # its memory is overwritten
                index = 0 if writer is None else writer.index
                copies.setdefault(writer, []).append(copy_op(value, own, index))
            results.append(own)
        kept = self._required | self._close([*self.saved], self._required.__contains__)
        ops = copies.get(None, [])
        for op in self._early:
            ops += [op, *copies.get(op, ())] if op in kept else ()
        feeds = {n: v for n, v in self.graph.feeds.items() if n not in self.graph.late_feeds}
        return _make_half(self, ops, feeds, results)


class _Second:
    """The half that runs second, with its own copies of the values.

    The feeds are the saved values, then the feeds of the first half that it reads, then late feeds.
    """

    def __init__(self, first: _First) -> None:
        self._first = first
        self._values: dict[Value, Value] = {}
        self._buffers: dict[Buffer, Buffer] = {}
        graph = first.graph
        ops = [op for op in graph.ops if op in first.late_ops]
        feeds: dict[str, Value] = {}
        copies = []
        for number, value in enumerate(first.saved):
            name = f"saved {number}: {value.name}"
            external = External(Role.FEED, name, value.meta, value.buffer.device)
            feeds[name] = fed = self._values[value] = external_value(external)
            if value.buffer in first.overwritten and first.last.get(value.buffer) is value:
                self._values[value] = own = new_value(value.name, value.meta)
                self._buffers[value.buffer] = own.buffer
                copies.append(copy_op(fed, own, 0))
        moved = [self._move(op) for op in self._in_order(ops)]
        results = [self._moved(value) for value in first.late_results]
        read = {value for op in moved for value in _reads(op)}
        read.update(value.source or value for value in results)
        late = [name for name in graph.feeds if name in graph.late_feeds]
        refed = [name for name, value in graph.feeds.items() if self._values.get(value) in read]
        for name in (*(name for name in refed if name not in late), *late):
            feeds[name] = self._moved(graph.feeds[name])
        self.half = _make_half(first, copies + moved, feeds, results)

    def _in_order(self, late: list[LoweredOp]) -> list[LoweredOp]:
        """Return the operators; each recomputed operator comes right before its first reader."""
        end = len(late)
        first_read = {value.source or value: end for value in self._first.late_results}
        places = {op: place for place, op in enumerate(late)}
        for op in reversed(late):
            first_read.update(dict.fromkeys(_reads(op), places[op]))
        again = [op for op in self._first.graph.ops if op in self._first.again]
        for op in reversed(again):
            places[op] = min(first_read.get(value, end) for value in op.writes())
            for value in _reads(op):
                first_read[value] = min(first_read.get(value, end), places[op])
        return sorted([*again, *late], key=places.__getitem__)  # stable sort: readers follow

    def _move(self, op: LoweredOp) -> LoweredOp:
        """Return a copy of an operator over the values of this half."""
        twin = copy(op)
        twin.inputs = tuple([tuple(map(self._moved, values)) for values in op.inputs])
        twin.outputs = tuple([tuple(map(self._written, values)) for values in op.outputs])
        for value in twin.writes():
            value.op = twin
        for child in twin.children:
            child.bindings = tuple([(self._moved(value), place) for value, place in child.bindings])
        return twin

    def _written(self, value: Value) -> Value:
        if value in self._first.saved:  # its operator is recomputed for another output
            return new_value(value.name, value.meta)
        return self._moved(value)

    def _moved(self, value: Value) -> Value:
        moved = self._values.get(value)
        if moved is None:
            source = None if value.source is None else self._moved(value.source)
            buffer = self._moved_buffer(value.buffer) if source is None else source.buffer
            moved = self._values[value] = Value(value.name, value.meta, buffer)
            moved.source, moved.is_constant = source, value.is_constant
        return moved

    def _moved_buffer(self, buffer: Buffer) -> Buffer:
        moved = self._buffers.get(buffer)
        if moved is None:
            moved = self._buffers[buffer] = copy(buffer)
        return moved


def _make_half(
    first: _First, ops: list[LoweredOp], feeds: dict[str, Value], results: list[Value]
) -> Graph:
    graph = first.graph
    half = Graph(first.request)
    half.kernel_target, half.n_threads = graph.kernel_target, graph.n_threads
    half.lasting, half.signatures = graph.lasting, graph.signatures
    half.prepare_s, half.unfinished = graph.prepare_s, graph.unfinished
    half.ops, half.feeds, half.sinks = ops, feeds, []
    half.keeps, half.fetches = (results, list(results)) if first.stays else ([], [])
    for value in () if first.stays else results:
        external = External(Role.FETCH, value.name, value.meta, half.target.host)
        half.sinks.append((value, external))
    return half
