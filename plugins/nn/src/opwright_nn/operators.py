"""Appends one operator and returns its output, for layers, regularizers and optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import opwright as ow
from opwright.errors import ProgramError


def append(
    block: ow.Block,
    op_type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    slot: str = "out",
    name: str | None = None,
    prefix: str | None = None,
) -> ow.Variable:
    """Append an operator to `block` and return the variable in one of its output slots.

    Parameters
    ----------
    block : Block
        The target, which infers shapes and checks the operator.
    op_type : str
        The operator type.
    inputs : mapping of slot to Variable, name, list of these, or None
        None for an optional slot without a variable.
    attrs : mapping, optional
        Attributes.
    slot : str
        The output to return; other outputs get new names.
    name : str, optional
        The name of that output; it must be new.
    prefix : str, optional
        Without `name`, the name of that output, with a number appended if it is taken; by default
        the operator type.
    """
    if name is not None and block.find_var(name) is not None:
        raise ProgramError(
            f"{op_type}: the name of an output must be new, got {name!r}, which exists; choose "
            "another name for the layer"
        )
    out = name or block.program.free_name(prefix or op_type)
    slots = {key: value for key, value in inputs.items() if value is not None}
    op = block.append_op(op_type, inputs=slots, outputs={slot: out}, attrs=dict(attrs or {}))
    return block.var(op.output(slot)[0])
