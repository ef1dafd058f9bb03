"""Appends an operator with operands as in `opwright.ops`: Variables, numbers and arrays.

Numbers and arrays among operands become constants of the program. A number gets the dtype of the
Variable next to it, whereas an array keeps its dtype. Large arrays must be parameters or feeds,
because a program is a description without data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright import _runtime
from opwright.describe.dtypes import Array, dtype_from_numpy
from opwright.describe.op_proto import OpProto, VarProto
from opwright.device.intake import is_array, meta_of, read_host
from opwright.errors import ShapeError
from opwright.program.journal import transaction
from opwright.program.operator import Operator
from opwright.program.variable import Variable

if TYPE_CHECKING:
    from opwright.program.block import Block

FILL: Final = "fill"
CONSTANT: Final = "constant"
"""The operators for constants; if they are missing, the error names the package to install."""

MAX_ELEMENTS: Final = 4096
"""Maximum number of elements of a constant whose elements are not all equal."""


@transaction()
def append_call(
    block: Block,
    proto: OpProto,
    given: Sequence[Sequence[Any]],
    attrs: Mapping[str, Any],
    requested: Iterable[str] = (),
) -> Operator:
    """Append an operator; numbers and arrays among its operands become constants of the program.

    `given` are the operands, slot by slot in OpProto order; `requested` are outputs to add.
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
    """Return the dtype for a Python number or list, and the slot of the operand with this dtype."""
    for other, items in zip(proto.inputs, given, strict=True):
        tied = slot.same_as == other.name or other.same_as == slot.name or other is slot
        tied = tied or (slot.same_as is not None and slot.same_as == other.same_as)
        for item in items:
            if tied and isinstance(item, Variable):
                return item.dtype, other.name
            if tied and isinstance(item, (np.ndarray, np.generic, _runtime.Tensor)):
                return meta_of(item).dtype, other.name
    return None, ""


def append_constant(block: Block, value: Any, dtype: str | None, who: str, beside: str) -> Variable:
    """Append a constant for a number, a list or an array; return its Variable, without a gradient.

    `dtype` is the dtype of numbers and lists, by default the choice of NumPy. `who` (operator and
    slot) and `beside` (the slot that has this dtype) are for messages. Raises DtypeError for a
    number that the dtype cannot represent, and ShapeError for an array that is too large.
    """
    if isinstance(value, float):  # np.float64 is a subclass of float and gets this dtype, too
        value = float(value)
    array = read_host(value, who, None if is_array(value) else dtype, beside)
    numbers = array if array.dtype.kind in "iu" else np.asarray(array, np.float64)
    shape = list(array.shape)
    attrs: dict[str, Any] = {"shape": shape, "dtype": dtype_from_numpy(array.dtype)}
    if _is_uniform(numbers):
        attrs["value"] = numbers.flat[0].item() if numbers.size else 0.0
        op_type = FILL
    elif array.size <= MAX_ELEMENTS:
        attrs["values"] = numbers.ravel().tolist()
        op_type = CONSTANT
    else:
        raise ShapeError(
            f"{who}: an array next to a Variable is a constant of the program and must have at "
            f"most {MAX_ELEMENTS} elements, got {array.size} in shape {shape}; make it a parameter "
            "(block.create_parameter), or feed it (block.create_var and compile(feed=...)); a "
            "function of opwright.grad takes it as an argument"
        )
    op = block.append_op(op_type, attrs=attrs)
    variable = block.var(op.output("out")[0])
    variable.stop_gradient = True
    return variable


def _is_uniform(numbers: Array) -> bool:
    """Whether all elements are bitwise identical, so -0.0 differs from 0.0; NaN equals itself."""
    bits = numbers.ravel().view(f"i{numbers.itemsize}")
    return numbers.size == 0 or bool((bits == bits[0]).all())
