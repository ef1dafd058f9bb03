"""Appends an operator to operands as `opwright.ops` takes them: Variables, numbers and arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opwright import _runtime
from opwright.describe.op_proto import OpProto, VarProto
from opwright.device.intake import meta_of
from opwright.program.constants import append_constant
from opwright.program.journal import transaction
from opwright.program.operator import Operator
from opwright.program.variable import Variable

if TYPE_CHECKING:
    from opwright.program.block import Block


@transaction()
def append_call(
    block: Block,
    proto: OpProto,
    given: Sequence[Sequence[Any]],
    attrs: Mapping[str, Any],
    requested: Iterable[str] = (),
) -> Operator:
    """Append an operator; numbers and arrays among its operands become constants of the program.

    `given` are the operands slot by slot in the order of the OpProto, and `requested` the optional
    outputs that must exist.
    """
    inputs = {
        slot.name: [_as_variable(block, proto, slot, item, given) for item in items]
        for slot, items in zip(proto.inputs, given, strict=True)
        if items
    }
    outputs = {name: block.program.unique_name(name) for name in sorted(requested)}
    return block.append_op(proto.type, inputs, outputs, attrs)


def _as_variable(
    block: Block, proto: OpProto, slot: VarProto, item: Any, given: Sequence[Sequence[Any]]
) -> Variable:
    if isinstance(item, Variable):
        return item
    dtype, beside = expected_dtype(proto, slot, given)
    return append_constant(block, item, dtype, f"{proto.type}: {slot.name}", beside)


def expected_dtype(
    proto: OpProto, slot: VarProto, given: Sequence[Sequence[Any]]
) -> tuple[str | None, str]:
    """Return the dtype for a Python number or list, and the slot of the operand that has it."""
    for other, items in zip(proto.inputs, given, strict=True):
        tied = slot.same_as == other.name or other.same_as == slot.name or other is slot
        tied = tied or (slot.same_as is not None and slot.same_as == other.same_as)
        for item in items:
            if tied and isinstance(item, Variable):
                return item.dtype, other.name
            if tied and isinstance(item, (np.ndarray, np.generic, _runtime.Tensor)):
                return meta_of(item).dtype, other.name
    return None, ""
