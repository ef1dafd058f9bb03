"""Values of operators by slot name: a pass knows operators by their names alone."""

from __future__ import annotations

from opwright.rewriting import LoweredOp, Value


def input_of(op: LoweredOp, slot: str) -> Value | None:
    """Return the one value of an input slot, None where it is absent or unknown to the operator."""
    index = op.definition.input_index.get(slot)
    values = () if index is None else op.inputs[index]
    return values[0] if len(values) == 1 else None


def output_of(op: LoweredOp, slot: str) -> Value | None:
    """Return the one value of an output slot, None where it is absent or unknown."""
    index = op.definition.output_index.get(slot)
    values = () if index is None else op.outputs[index]
    return values[0] if len(values) == 1 else None


def writer_of(value: Value | None, *types: str) -> LoweredOp | None:
    """Return the operator that writes a value if it is of one of these types, else None."""
    if value is None or value.op is None or value.op.type not in types:
        return None
    return value.op
