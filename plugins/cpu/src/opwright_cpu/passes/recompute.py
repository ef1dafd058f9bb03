"""``recompute``: recomputes cheap values for their last reader instead of storing them.

In training, gradients read values that were computed long before, such as normalized or transposed
arrays, so all of these values are in memory at the peak. Instead, this pass runs the operator of a
value a second time, right before the last reader, while the inputs still exist. The same kernel
computes bitwise identical values. The option ``cpu.recompute`` is the share of the step time that
recomputation may take.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from opwright.rewriting import Buffer, Graph, LoweredOp, Uses, Value

OPTION = "cpu.recompute"

LEAST_BYTES = 1 << 16
"""Minimum size in bytes of a value that is worth an additional operator."""

QUICK_NS_PER_BYTE = 1.0
"""Values that take one thread longer per byte are stored; a core moves a byte in a tenth of that
time."""

PRODUCTS = frozenset({
    "fc", "matmul", "gemm", "bilinear", "conv1d", "conv2d", "conv3d", "conv2d_transpose",
    "conv3d_transpose", "cpu.conv2d_fused", "scaled_dot_product_attention", "lstm", "gru", "rnn",
    "lstm_cell", "gru_cell",
})  # fmt: skip
PRODUCT_TIMES = 3
"""The factor applied to the estimate of a product, because the estimate holds only for the best
shapes. With this factor, only products that compute a large value from few terms are quick."""

LEAST_SAVED = 0.01
"""From this fraction of the peak memory of a step on, a saving is worth the time."""


class _Late(NamedTuple):
    """A value, and the gap between its second-to-last reader (or its writer) and its last reader.

    ``begin`` and ``end`` are the positions of these operators; ``cost_ns`` is the time to recompute
    the value.
    """

    op: LoweredOp
    value: Value
    reader: LoweredOp
    begin: int
    end: int
    cost_ns: int

    @property
    def size(self) -> int:
        return self.value.buffer.size


def recompute(graph: Graph) -> None:
    """Recompute cheap values before their last readers if this saves memory."""
    if not _is_worth_a_look(graph):
        return
    share = graph.target.context.options.fill(dict(graph.target.options or ()))[OPTION]
    if share <= 0:
        return
    lives = _lifetimes(graph.ops)
    candidates = list(_find_late(graph, lives))
    if not candidates:
        return
    budget_ns = share * sum(graph.estimate_ns(op) for op in graph.ops if not op.is_copy)
    chosen = _choose(candidates, _bytes_alive(lives, len(graph.ops)), budget_ns)
    if chosen:
        _apply(graph, chosen)


def _is_worth_a_look(graph: Graph) -> bool:
    """Return whether a plan is long, is not nested in another plan, and has large values."""
    if graph.is_body or graph.n_threads != graph.target.n_threads:
        return False
    sizes = (size for s in graph.signatures.values() for slot in s.sizes for size in slot)
    return any(size >= LEAST_BYTES for size in sizes)


def _lifetimes(ops: list[LoweredOp]) -> dict[Buffer, tuple[int, int]]:
    """Return the first and the last position at which each buffer of the plan is needed.

    An output that reuses the memory of an input begins after that input ends.
    """
    lives: dict[Buffer, tuple[int, int]] = {}
    for position, op in enumerate(ops):
        for value in (*op.data_reads(), *op.writes()):
            if value.buffer.is_owned:
                begin, _ = lives.get(value.buffer, (position, position))
                lives[value.buffer] = begin, position
        if op.workspace is not None:
            lives[op.workspace] = position, position
    for position, op in enumerate(ops):
        for written, read in op.reuse:
            source, target = op.inputs[read][0].buffer, op.outputs[written][0].buffer
            if lives.get(source, (0, -1))[1] == position == lives.get(target, (-1, -1))[0]:
                lives[target] = position + 1, max(lives[target][1], position)
    return lives


def _bytes_alive(lives: dict[Buffer, tuple[int, int]], count: int) -> np.ndarray:
    """Return the number of bytes needed at each position."""
    changes = np.zeros(count + 2, np.int64)
    for buffer, (begin, end) in lives.items():
        changes[begin] += buffer.size
        changes[end + 1] -= buffer.size
    return np.cumsum(changes)[:count]


def _find_late(graph: Graph, lives: dict[Buffer, tuple[int, int]]) -> Iterable[_Late]:
    uses = graph.uses()
    for position, op in enumerate(graph.ops):
        large = [value for value in op.writes() if value.buffer.size >= LEAST_BYTES]
        if len(large) != 1 or not _is_repeatable(op) or uses.is_visible(large[0]):
            continue
        readers = uses.readers(large[0])
        if not readers or readers[-1].children:
            continue
        begin = position if len(readers) == 1 else uses.position[readers[-2]]
        end = uses.position[readers[-1]]
        if end - begin > 1 and all(_lasts(u, uses, lives, end) for u in op.data_reads()):
            cost_ns = 0 if len(readers) == 1 else _cost_ns(graph, op)
            if cost_ns * graph.n_threads <= QUICK_NS_PER_BYTE * large[0].buffer.size:
                yield _Late(op, large[0], readers[-1], begin, end, cost_ns)


def _cost_ns(graph: Graph, op: LoweredOp) -> int:
    return graph.estimate_ns(op) * (PRODUCT_TIMES if op.type in PRODUCTS else 1)


def _is_repeatable(op: LoweredOp) -> bool:
    """Return whether a second run gives bitwise identical results, without side effects."""
    entry = op.entry
    if entry is None or entry.blocks or not entry.deterministic or op.prepared.needs_gil:
        return False
    if op.has_effect or op.children or op.is_dynamic or op.definition.alias_slots:
        return False
    return all(value.buffer.is_owned and not value.is_constant for value in op.writes())


def _lasts(value: Value, uses: Uses, lives: dict[Buffer, tuple[int, int]], end: int) -> bool:
    """Return whether a value would still exist at a later position without recomputation."""
    if not uses.holds(value, end):
        return False
    return not value.buffer.is_owned or lives[value.buffer][1] >= end


def _choose(candidates: list[_Late], alive: np.ndarray, budget_ns: float) -> list[_Late]:
    """Return the values to recompute within a time limit, chosen by bytes saved per unit of time.

    The chosen values do not depend on each other.
    """
    before = alive.max()
    chosen: list[_Late] = []
    while True:
        worst = int(alive.argmax())
        fitting = [
            late
            for late in candidates
            if late.begin < worst < late.end
            and late.cost_ns <= budget_ns
            and _is_apart(late, chosen)
        ]
        if not fitting:
            break
        best = max(fitting, key=lambda late: late.size / (late.cost_ns + 1))
        alive[best.begin + 1 : best.end] -= best.size
        budget_ns -= best.cost_ns
        candidates.remove(best)
        chosen.append(best)
    chosen = _without_idle(chosen, alive)
    return chosen if before - alive.max() >= LEAST_SAVED * before else []


def _is_apart(late: _Late, chosen: list[_Late]) -> bool:
    """Return whether a value and the chosen values do not depend on each other."""
    return not any(
        other.value in _read_by(late.op) or late.value in _read_by(other.op) for other in chosen
    )


def _read_by(op: LoweredOp) -> set[Value]:
    return {value.source or value for value in op.data_reads()}


def _without_idle(chosen: list[_Late], alive: np.ndarray) -> list[_Late]:
    """Return the values whose recomputation lowers the memory peak; other values stay stored."""
    needed = []
    for late in sorted(chosen, key=lambda late: -late.cost_ns):
        most = alive.max()
        alive[late.begin + 1 : late.end] += late.size
        if alive.max() > most:
            alive[late.begin + 1 : late.end] -= late.size
            needed.append(late)
    return needed


def _apply(graph: Graph, chosen: list[_Late]) -> None:
    edit = graph.edit()
    readers: dict[LoweredOp, list[_Late]] = {}
    for late in chosen:
        readers.setdefault(late.reader, []).append(late)
    for reader, together in readers.items():
        made: list[LoweredOp] = []
        anew: dict[Value, Value] = {}
        for late in together:
            again = _again(graph, late)
            anew[late.value] = again.writes()[late.op.writes().index(late.value)]
            made.append(again)
        made.append(_reading(graph, reader, anew))
        if all(map(graph.has_kernel, made)):
            edit.fuse([reader], made)
    edit.apply()


def _again(graph: Graph, late: _Late) -> LoweredOp:
    """Return an operator that recomputes a value."""
    op, proto = late.op, late.op.definition.proto
    inputs = {slot.name: values for slot, values in zip(proto.inputs, op.inputs, strict=True)}
    outputs = {
        slot.name: [graph.value(value.name, value.meta) for value in values]
        for slot, values in zip(proto.outputs, op.outputs, strict=True)
    }
    return graph.make(op.definition, inputs, outputs, op.attrs, like=op)


def _reading(graph: Graph, reader: LoweredOp, anew: dict[Value, Value]) -> LoweredOp:
    """Return an operator that reads the new values instead and writes the same outputs."""
    proto = reader.definition.proto

    def current(value: Value) -> Value:
        new = anew.get(value.source or value)
        if new is None:
            return value
        return graph.view(new, value.meta) if value.source is not None else new

    inputs = {
        slot.name: [current(value) for value in values]
        for slot, values in zip(proto.inputs, reader.inputs, strict=True)
    }
    outputs = {slot.name: v for slot, v in zip(proto.outputs, reader.outputs, strict=True)}
    return graph.make(reader.definition, inputs, outputs, reader.attrs, like=reader)
