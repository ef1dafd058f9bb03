"""Checks dtypes against the ONNX schemas and infers output dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from onnx import TensorProto

from opwright_onnx.dtypes import NAMES
from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.schemas import find_schema

_SPELLINGS: Final = {
    name: f"tensor({TensorProto.DataType.Name(number).lower()})" for number, name in NAMES.items()
}
_DTYPES: Final = {spelling: name for name, spelling in _SPELLINGS.items()}


def check_types(
    op_type: str, domain: str, opset: int, dtypes: Sequence[str | None], output: str | None = None
) -> Mapping[int, str]:
    """Return the output dtypes of a node by position, as far as the schema determines them.

    `output` is the dtype of the first output if the schema does not determine it.

    Raises DeclinedError if ONNX lacks the operator at the opset, or the operator does not accept
    one of the dtypes.
    """
    found, allowed, outputs = _read_schema(op_type, domain, opset)
    if not found:
        raise DeclinedError(f"{op_type} is not an ONNX operator at opset {opset}")
    if output is not None and output not in outputs[0][1]:
        raise DeclinedError(f"ONNX's {op_type} does not return {output} at opset {opset}")
    given: dict[str, str] = {}
    for i, dtype in enumerate(dtypes):
        name, kinds, is_same = allowed[min(i, len(allowed) - 1)]
        if dtype is None:
            continue
        if _SPELLINGS[dtype] not in kinds:
            raise DeclinedError(f"ONNX's {op_type} does not accept {dtype} at opset {opset}")
        if is_same and given.setdefault(name, dtype) != dtype:
            raise DeclinedError(
                f"ONNX's {op_type} needs inputs with equal dtypes, got {given[name]} and {dtype}"
            )
    return {
        i: given.get(name) or next(iter(kinds))
        for i, (name, kinds) in enumerate(outputs)
        if name in given or len(kinds) == 1
    }


@lru_cache(maxsize=1024)
def _read_schema(op_type: str, domain: str, opset: int) -> Any:
    """Return whether a schema exists, and the type and allowed types of each input and output."""
    schema = find_schema(op_type, domain, opset)
    if schema is None or schema.deprecated:
        return False, (), ()
    same = schema.FormalParameterOption.Variadic
    inputs = [
        (i.type_str, set(i.types), i.option != same or i.is_homogeneous) for i in schema.inputs
    ]
    outputs = [(o.type_str, {_DTYPES[k] for k in o.types if k in _DTYPES}) for o in schema.outputs]
    return True, inputs, outputs
