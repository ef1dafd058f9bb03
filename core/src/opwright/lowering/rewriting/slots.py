"""Functions for passes that return values by slot name and create operators with kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opwright.describe.definition import OpDefinition
from opwright.errors import DtypeError
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import LoweredOp, Value
from opwright.lowering.kernels.select import find_kernel


def input_of(op: LoweredOp, slot: str) -> Value | None:
    """Return the only value of an input slot, or None if it is absent or unknown."""
    return _only(op.inputs, op.definition.input_index.get(slot))


def output_of(op: LoweredOp, slot: str) -> Value | None:
    """Return the only value of an output slot, or None if it is absent or unknown."""
    return _only(op.outputs, op.definition.output_index.get(slot))


def _only(slots: tuple[tuple[Value, ...], ...], index: int | None) -> Value | None:
    values = () if index is None else slots[index]
    return values[0] if len(values) == 1 else None


def other_input(op: LoweredOp, one: Value) -> Value | None:
    """Return the input ``x`` or ``y`` that is not ``one``, or None if both are equal."""
    x, y = input_of(op, "x"), input_of(op, "y")
    if x is y:
        return None
    return y if x is one else x


def writer_of(value: Value | None, *types: str) -> LoweredOp | None:
    """Return the operator that writes a value, or None if its type is not in `types`."""
    if value is None or value.op is None or value.op.type not in types:
        return None
    return value.op


def make_if_served(
    graph: Graph,
    operator: OpDefinition | str,
    inputs: Mapping[str, Value | Sequence[Value] | None],
    outputs: Mapping[str, Value | Sequence[Value] | None],
    attrs: Mapping[str, Any],
    like: LoweredOp,
) -> LoweredOp | None:
    """Return a new operator, or None if it does not support the dtypes or no kernel accepts it.

    A slot that is None is absent.

    Raises
    ------
    OpwrightError
        If anything other than the dtypes is refused. Refused shapes show that a pass has misread
        the operators that it replaces; if the shapes happened to fit, results would be wrong.
    """
    given = {slot: value for slot, value in inputs.items() if value is not None}
    written = {slot: value for slot, value in outputs.items() if value is not None}
    try:
        op = graph.make(operator, given, written, attrs, like=like)
    except DtypeError:
        return None
    return op if find_kernel(op, graph) else None
