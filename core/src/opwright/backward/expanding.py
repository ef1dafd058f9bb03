"""Composites without a gradient rule are replaced by their bodies, in the program itself."""

from __future__ import annotations

from collections.abc import Collection

from opwright.backward.emitting import ProgramBodyEmitter
from opwright.backward.versions import ForwardOp, Versions
from opwright.errors import OpwrightError
from opwright.program import Block, Operator


def needs_expansion(forward: ForwardOp) -> bool:
    """Tell whether an operator is differentiated by differentiating its body."""
    definition = forward.op.definition
    return definition.gradient is None and definition.body is not None


def expand_composites(block: Block, versions: Versions, chosen: Collection[ForwardOp]) -> None:
    """Write the bodies of the chosen operators in their places; temporaries are ``<out>/…``."""
    indices = {forward.index for forward in chosen}
    ops: list[Operator] = []
    for forward in versions.forward:
        if forward.index in indices:
            _expand(block, ops, forward)
        else:
            ops.append(forward.op)
    block.replace_ops(ops)


def _expand(block: Block, ops: list[Operator], forward: ForwardOp) -> None:
    try:
        ProgramBodyEmitter(block, ops, forward.op).write()
    except OpwrightError as error:
        error.add_note(f"in the body of {forward}")
        raise
