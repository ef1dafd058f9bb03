"""How layers, regularizers and optimizers append one operator and get its output."""

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
        Where the operator goes; shapes are inferred and everything is checked by it.
    op_type : str
        The operator type.
    inputs : mapping of slot to Variable, name, list of these, or None
        None leaves an optional slot out.
    attrs : mapping, optional
        Attributes.
    slot : str
        The output that is returned; the others get names of their own.
    name : str, optional
        The name of that output; it must be new.
    prefix : str, optional
        Its name where `name` is not given and nobody has it, otherwise with a number behind; the
        operator type by default.
    """
    if name is not None and block.find_var(name) is not None:
        raise ProgramError(
            f"{op_type}: the name of an output must be new, got {name!r}, which exists; give the "
            "layer another name"
        )
    out = name or block.program.free_name(prefix or op_type)
    given = {key: value for key, value in inputs.items() if value is not None}
    op = block.append_op(op_type, inputs=given, outputs={slot: out}, attrs=dict(attrs or {}))
    return block.var(op.output(slot)[0])
