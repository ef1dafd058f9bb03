"""Values that do not change between runs until a parameter is set.

Constants are persistables that the plan does not write, and values computed only from constants.
The plan computes them before its first run, and recomputes them when a persistable has changed.
So folding parameters does not slow down other runs, and kernels may pack the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opwright.lowering.graph.values import LoweredOp
from opwright.program import Operator
from opwright.registry import HOST_DEVICE

if TYPE_CHECKING:
    from opwright.lowering.graph.graph import Graph


def written_by(op: Operator) -> Iterable[Sequence[str]]:
    """Return the names whose values an operator changes, slot by slot."""
    definition = op.definition
    if not definition.alias_slots or not definition.leaves_inputs(op.attrs):
        return op.outputs.values()
    kept = {definition.proto.outputs[slot].name for slot, _ in definition.alias_slots}
    return [names for slot, names in op.outputs.items() if slot not in kept]


def is_constant(op: LoweredOp) -> bool:
    """Whether an operator reads one or more values, only constants, and writes plan memory."""
    if not op.definition.any_shape_only and op.inputs:  # nearly always the end of it
        first = op.inputs[0]
        if first and not first[0].is_constant:
            return False
    for slot, values in zip(op.definition.proto.inputs, op.inputs, strict=True):
        for value in values:
            if not value.is_constant and not slot.shape_only:
                return False
    definition = op.definition
    if not op.data_reads() or op.has_effect or op.is_dynamic or op.device is not None:
        return False
    if definition.control is not None or not definition.leaves_inputs(op.attrs):
        return False
    aliased = {slot for slot, _ in definition.alias_slots}
    written = [values for slot, values in enumerate(op.outputs) if slot not in aliased]
    return all(value.buffer.is_owned for values in written for value in values)


def mark_constants(op: LoweredOp) -> bool:
    """Mark the constant outputs of an operator that no other operator writes.

    Return whether all of its outputs are constant.
    """
    if not is_constant(op):
        return False
    values = list(op.writes())
    for value in values:
        if value.op is None or value.op is op:
            value.is_constant = True
    return all(value.is_constant for value in values)


def hoist_constants(graph: Graph) -> None:
    """Move the operators that compute constants before the other operators, and count them.

    Done only on the host, since other devices record a plan as one graph, which runs as a whole.
    """
    if graph.device != HOST_DEVICE:
        return
    # Constants are marked again, since an edit may have moved outputs to a different operator.
    constant = {op for op in graph.ops if not op.is_copy and mark_constants(op)}
    rest = [op for op in graph.ops if op not in constant]
    graph.ops = [*(op for op in graph.ops if op in constant), *rest]
    graph.n_constant = len(constant)
