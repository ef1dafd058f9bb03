"""Verifies a graph after a pass: each read must find the value that it names.

One pass over the reads and writes of every buffer, which takes about a twentieth of the time in
which the same operators are lowered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright.lowering.graph.values import Role

if TYPE_CHECKING:
    from opwright.lowering.graph.graph import Graph
    from opwright.lowering.graph.values import Buffer, LoweredOp, Value

Held = dict["Buffer", "Value"]


def last_writes(graph: Graph) -> Held:
    """Return the values in the memory of the scope when the plan ends."""
    held: Held = {}
    for op in graph.ops:
        for values in op.outputs:
            for value in values:
                external = value.buffer.external
                if external is not None and external.role is Role.PERSISTABLE:
                    held[value.buffer] = value
    return held


def find_violation(graph: Graph, lasting: Held) -> str | None:
    """Return what is wrong with a graph, or None.

    `lasting` is what `last_writes` returned before the pass: it must still hold.
    """
    held: Held = {}
    for op in graph.ops:
        for values in op.data_slots():
            for value in values:
                found = held.get(value.buffer)
                if found is not value and not _shows(value, found):
                    return f"{op.type} reads {value!r}, {_blame(found)}"
        if op.children:
            fault = _captured_fault(op, held)
            if fault is not None:
                return fault
        for values in op.outputs:
            for value in values:
                held[value.buffer] = value
    return _final_fault(graph, held, lasting)


def _captured_fault(op: LoweredOp, held: Held) -> str | None:
    for child in op.children:
        for value, _ in child.bindings:
            found = held.get(value.buffer)
            if not _shows(value, found):
                return f"a block of {op.type} reads {value!r}, {_blame(found)}"
    return None


def _final_fault(graph: Graph, held: Held, lasting: Held) -> str | None:
    sinks = [value for value, _ in graph.sinks]
    for value in [*sinks, *graph.keeps, *graph.fetches]:
        found = held.get(value.buffer)
        if not _shows(value, found):
            return f"{value!r} is fetched, {_blame(found)}"
    for buffer, value in lasting.items():
        if held.get(buffer) is not value:
            return f"persistable {value!r} must be written last by its own value, and is not"
    return None


def _shows(value: Value, found: Value | None) -> bool:
    """Whether ``value`` is in memory that has the value ``found`` (None: what was given)."""
    if found is not None:
        return found is value or found is value.source
    given = value.source or value
    return given.op is None and given.buffer.external is not None


def _blame(found: Value | None) -> str:
    if found is None:
        return "which no operator writes before that"
    return f"whose memory holds {found!r} by then"
