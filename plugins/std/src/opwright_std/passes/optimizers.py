"""``fuse_optimizers``: fuse all updates of the same kind into one step.

A model has dozens of small parameters. Individual updates cost a step or a launch each, and are too
small for several threads; ``std.multi_<type>`` distributes them together, if the device has a
kernel.

A large parameter is updated separately: it provides enough work for all threads, and its update
need not wait for other gradients.
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
"""Larger parameters are updated separately."""


def fuse_optimizers(graph: Graph) -> None:
    """Fuse updates with equal attributes and learning rate into ``std.multi_<type>``."""
    edit = graph.edit()
    groups: dict[Hashable, list[LoweredOp]] = {}
    for op in graph.of_type(*OPTIMIZERS):
        if not _is_large(op):
            groups.setdefault(_kind(op), []).append(op)
    for updates in groups.values():
        if len(updates) < 2 or not graph.is_served(_fused(updates[0])):
            continue
        # Usually all updates can move together (the edit checks this); otherwise each is checked.
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
    """Return the key that fused updates must share."""
    (rate,), (param,) = op.input(_SHARED), op.input("param")
    return op.type, tuple(sorted(op.attrs.items())), rate, param.meta.dtype


def _movable(updates: list[LoweredOp], uses: Uses | None) -> list[LoweredOp]:
    """Return the updates that can move to the last update and do not read each other's outputs.

    If `uses` is None, operators other than the updates are ignored.
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
