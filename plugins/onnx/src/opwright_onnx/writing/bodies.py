"""Expands the body of a composite into operators of a separate program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import opwright as ow
from opwright.op import BodyContext, Meta


def open_body(op: ow.Operator, block: ow.Block) -> ow.Block | None:
    """Return a block with the body operators of a composite, or None if no body applies.

    Inputs and outputs have the same names in the block as in the operator.
    """
    body = op.definition.body
    if body is None:
        return None
    emitter = _Emitter(op, block)
    read: Any = SimpleNamespace(type=op.type, inputs=op.inputs, outputs=op.outputs, attrs=op.attrs)
    if body(BodyContext(read, op.definition.proto, emitter)) is False:
        return None
    return emitter.block


class _Emitter:
    """Appends the operators of a body to a block."""

    def __init__(self, op: ow.Operator, outer: ow.Block) -> None:
        self.program = ow.Program()
        self.block = self.program.global_block()
        self._outer = outer
        for name in op.input_names():
            variable = outer.var(name)
            self.block.create_var(name, variable.shape, variable.dtype)
        for name in op.output_names():
            self.program.note_name(name)

    def emit(self, type: str, inputs: Any, outputs: Any, attrs: Any) -> dict[str, list[str]]:
        """Append one operator; an integer n among the outputs stands for n new variables."""
        take = self.program.take_name
        named = {
            slot: [take(type) for _ in range(names)] if isinstance(names, int) else names
            for slot, names in outputs.items()
        }
        written = self.block.append_op(type, inputs, named, attrs)
        return {slot: list(names) for slot, names in written.outputs.items()}

    def meta(self, name: str) -> Meta | None:
        """Return the meta of a variable."""
        found = self.block.find_var(name)
        return self._outer.var(name).meta if found is None else found.meta
