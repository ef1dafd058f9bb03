"""Describes how a plan uses the arguments of an operator; a kernel may exploit this."""

from __future__ import annotations

from opwright.lowering.graph.constants import is_constant
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import LoweredOp, Role
from opwright.records import NamedTuple


class Arguments(NamedTuple):
    """Arguments of one operator, by flat index: inputs first, then outputs.

    Attributes
    ----------
    packable : tuple of int
        The inputs that the plan reads from the scope and never writes.
    unread : tuple of int
        The unread intermediate outputs, which a kernel may leave unwritten.
    """

    packable: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()


def arguments_of(op: LoweredOp, graph: Graph) -> Arguments:
    """Return how a plan uses an operator's arguments; the graph must be complete."""
    return Arguments(find_packable(op, graph), find_unread(op, graph))


def find_packable(op: LoweredOp, graph: Graph) -> tuple[int, ...]:
    """Return the inputs that the plan reads from the scope and never writes.

    Values that are computed once, only from such inputs, count as well.
    """
    packable: tuple[int, ...] = ()
    flat = 0
    for values in op.inputs:
        for value in values:
            external = value.buffer.external
            if external is not None and external.role is Role.PERSISTABLE:
                packable += () if external.name in graph.changing_names else (flat,)
            elif value.is_constant and not is_constant(op):  # they run before any packing
                packable += (flat,)
            flat += 1
    return packable


def find_unread(op: LoweredOp, graph: Graph) -> tuple[int, ...]:
    """Return the unread intermediate outputs of a complete graph."""
    if not op.definition.any_intermediate or graph.keep_all:
        return ()
    unread: tuple[int, ...] = ()
    uses, flat = graph.uses(), sum(map(len, op.inputs))
    for slot, values in zip(op.definition.proto.outputs, op.outputs, strict=True):
        for value in values:
            if slot.intermediate and uses.stays_within(value, set()):
                unread += (flat,)
            flat += 1
    return unread
