"""Replaces composites without a gradient rule by their bodies, in the program itself."""

from __future__ import annotations

from collections.abc import Collection

from opwright.backward.versions import ForwardOp, Versions
from opwright.describe.completion import Slots
from opwright.describe.composite import BodyEmitter
from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta
from opwright.describe.op_proto import AttrValue
from opwright.errors import OpwrightError
from opwright.program import Block, Operator
from opwright.program.building import enter_operator
from opwright.program.operator import definition_of


def needs_expansion(forward: ForwardOp) -> bool:
    """Whether an operator is differentiated by differentiating its body."""
    definition = forward.op.definition
    return definition.gradient is None and definition.body is not None


def expand_composites(block: Block, versions: Versions, chosen: Collection[ForwardOp]) -> None:
    """Replace the chosen operators by their bodies; temporaries are named ``<output>/…``."""
    indices = {forward.index for forward in chosen}
    ops: list[Operator] = []
    for forward in versions.forward:
        if forward.index not in indices:
            ops.append(forward.op)
            continue
        try:
            _ProgramBodyEmitter(block, ops, forward.op).write()
        except OpwrightError as error:
            error.add_note(f"in the body of {forward}")
            raise
    block.replace_ops(ops)


class _ProgramBodyEmitter(BodyEmitter):
    """Writes the body of a composite into a list, in whose place the composite stood."""

    def __init__(self, block: Block, ops: list[Operator], op: Operator) -> None:
        promised = {name: block.var(name).meta for name in op.output_names()}
        super().__init__(op.definition, op.inputs, op.outputs, op.attrs, promised)
        self._block = block
        self._ops = ops

    def find_definition(self, type: str) -> OpDefinition:
        return definition_of(type)

    def find_meta(self, name: str) -> Meta | None:
        return self._block.var(name).meta

    def free_name(self, name: str) -> str:
        return self._block.program.take_name(name)

    def add(
        self, definition: OpDefinition, inputs: Slots, outputs: Slots, attrs: dict[str, AttrValue]
    ) -> None:
        check = self.check_output
        self._ops.append(enter_operator(self._block, definition, inputs, outputs, attrs, check))
