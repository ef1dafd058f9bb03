"""Moves updates as early as possible, so that the gradients that they read can be freed.

Optimizers are appended after all gradients. In that order, every gradient would be kept until the
end of the step, together with the values that later gradients need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import Buffer, LoweredOp

LEAST_FREED_BYTES: Final = 1 << 16
"""Minimum number of freed bytes that justifies a change of the program's order."""


def advance_updates(graph: Graph) -> None:
    """Move operators that only write the scope to right after their dependencies.

    Only the last readers of large buffers move. Operators do not move before an operator that reads
    or writes their outputs, or before an operator with an effect.
    """
    candidates = {op for op in graph.ops if _writes_scope_alone(op)}
    if not candidates:
        return
    candidates &= _last_readers(graph)
    behind = _find_places(graph.ops, candidates) if candidates else {}
    if not behind:
        return
    moved = {op for ops in behind.values() for op in ops}
    ops: list[LoweredOp] = []
    for position, op in enumerate(graph.ops):
        if op not in moved:
            ops.append(op)
        ops += behind.get(position, ())
    graph.ops = ops


def _writes_scope_alone(op: LoweredOp) -> bool:
    for values in op.outputs:
        for value in values:
            external = value.buffer.external  # nearly always None for the first value
            if external is None or not external.lasts:
                return False
    return not op.is_copy and not _stays(op)


def _stays(op: LoweredOp) -> bool:
    """Whether an operator has effects that must occur in the order of the program."""
    return op.has_effect or bool(op.children) or op.is_dynamic


def _last_readers(graph: Graph) -> set[LoweredOp]:
    """Return the operators that are the last readers of large buffers of the plan."""
    last: dict[Buffer, LoweredOp] = {}
    for op in graph.ops:
        for value in op.data_reads():
            last[value.buffer] = op
    kept = {value.buffer for value in (*graph.keeps, *(value for value, _ in graph.sinks))}
    freed: dict[LoweredOp, int] = {}
    for buffer, op in last.items():
        if buffer.is_owned and buffer not in kept:
            freed[op] = freed.get(op, 0) + buffer.size
    return {op for op, size in freed.items() if size >= LEAST_FREED_BYTES}


def _find_places(
    ops: Sequence[LoweredOp], candidates: set[LoweredOp]
) -> dict[int, list[LoweredOp]]:
    """Return the operators to move, by the earliest position after which they can run."""
    behind: dict[int, list[LoweredOp]] = {}
    written: dict[Buffer, int] = {}
    touched: dict[Buffer, int] = {}  # read or written
    fence = -1
    for position, op in enumerate(ops):
        reads = [value.buffer for value in op.data_reads()]
        writes = [value.buffer for value in op.writes()]
        if op in candidates:
            place = max(
                fence,
                *(written.get(buffer, -1) for buffer in reads),
                *(touched.get(buffer, -1) for buffer in writes),
            )
            if -1 < place < position - 1:
                behind.setdefault(place, []).append(op)
        elif _stays(op):
            fence = position
        touched.update(dict.fromkeys((*reads, *writes), position))
        written.update(dict.fromkeys(writes, position))
    return behind
