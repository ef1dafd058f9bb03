"""``fuse_optimizers``: all updates of one kind become one step.

A model has dozens of small parameters. Updated one after the other each costs a step of its own, or
a launch, and none is worth a second thread; together they are dealt out once by
``std.multi_<type>``, where the device has kernels of it.

A large parameter is updated by itself: that is work enough for all threads, and its gradient need
not wait for those of the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from opwright.rewriting import (
    Buffer,
    Graph,
    LoweredOp,
    Uses,
    Value,
    input_of,
    make_if_served,
    size_bytes,
)
from opwright_std.names import OPTIMIZERS

_SHARED = "learning_rate"

LARGE_BYTES = 1 << 20
"""From here on a gradient of its own is worth more than a step less."""


def fuse_optimizers(graph: Graph) -> None:
    """Make one ``std.multi_<type>`` of updates that share attributes and the learning rate."""
    edit = graph.edit()
    groups: dict[Hashable, list[LoweredOp]] = {}
    for op in graph.of_type(*OPTIMIZERS):
        if not _is_large(op):
            groups.setdefault(_kind(op), []).append(op)
    for updates in groups.values():
        if len(updates) < 2 or not graph.is_served(_fused(updates[0])):
            continue
        # Nearly always all may move, which the edit sees; only else each is looked at by itself.
        for uses in (None, graph.uses()):
            together = _movable(updates, uses)
            made = _merge(graph, together) if len(together) > 1 else None
            if made is not None and edit.fuse(together, [made]):
                break
    edit.apply()


def _is_large(update: LoweredOp) -> bool:
    param = input_of(update, "param")
    return param is not None and size_bytes(param.meta) >= LARGE_BYTES


def _fused(update: LoweredOp) -> str:
    return f"std.multi_{update.type}"


def _kind(op: LoweredOp) -> Hashable:
    """What updates of one step must have in common."""
    (rate,), (param,) = op.input(_SHARED), op.input("param")
    return op.type, tuple(sorted(op.attrs.items())), rate, param.meta.dtype


def _movable(updates: list[LoweredOp], uses: Uses | None) -> list[LoweredOp]:
    """Return the updates that may run where the last one does; none reads what another writes.

    Without `uses` the other operators are left out of account.
    """
    last = updates[-1]
    found: list[LoweredOp] = []
    written: set[Buffer] = set()
    read: set[Buffer] = set()
    for op in reversed(updates):
        reads = {value.buffer for value in op.data_reads()}
        writes = {value.buffer for value in op.writes()}
        apart = written.isdisjoint(reads | writes) and read.isdisjoint(writes)
        if op is last or (apart and (uses is None or uses.may_move(op, last))):
            written |= writes
            read |= reads
            found.append(op)
    return found[::-1]


def _merge(graph: Graph, updates: list[LoweredOp]) -> LoweredOp | None:
    last = updates[-1]
    inputs: dict[str, Sequence[Value]] = {
        name: [value for op in updates for value in op.inputs[slot]]
        for name, slot in last.definition.input_index.items()
    }
    inputs[_SHARED] = last.input(_SHARED)
    outputs = {
        name: [value for op in updates for value in op.outputs[slot]]
        for name, slot in last.definition.output_index.items()
    }
    return make_if_served(graph, _fused(last), inputs, outputs, last.attrs, last)
