"""Replaces composites without a kernel by their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta
from opwright.describe.op_proto import AttrValue
from opwright.lowering.graph.values import LoweredOp, Value
from opwright.program.completion import BodyEmitter, Slots
from opwright.program.operator import definition_of

if TYPE_CHECKING:
    from opwright.lowering.building.build_graph import GraphBuilder, Names


def open_composite(
    builder: GraphBuilder,
    op: LoweredOp,
    inputs: Names,
    outputs: Names,
    before: Mapping[str, Value | None],
) -> bool:
    """Append the operators of ``op``'s body to the builder's graph, if there is a body.

    ``before`` are the earlier values of the names of the outputs: the body may write a variable
    that it also reads.
    """
    env = builder.env
    promised = {name: env.pop(name) for name in before}
    env.update({name: value for name, value in before.items() if value is not None})
    metas = {name: value.meta for name, value in promised.items()}
    if _GraphEmitter(builder, op, inputs, outputs, metas).write():
        return True
    env.update(promised)
    return False


class _GraphEmitter(BodyEmitter):
    """Writes the operators of a body into the graph, which has no block."""

    def __init__(
        self,
        builder: GraphBuilder,
        op: LoweredOp,
        inputs: Names,
        outputs: Names,
        promised: Mapping[str, Meta],
    ) -> None:
        super().__init__(op.definition, inputs, outputs, op.attrs, promised)
        self._builder = builder
        self._index = op.index

    def find_definition(self, type: str) -> OpDefinition:
        return definition_of(type, self._builder.request.target.context.ops)

    def find_meta(self, name: str) -> Meta | None:
        value = self._builder.env.get(name)
        return self._promised[name] if value is None else value.meta

    def free_name(self, name: str) -> str:
        return self._builder.free_name(name)

    def add(
        self, definition: OpDefinition, inputs: Slots, outputs: Slots, attrs: dict[str, AttrValue]
    ) -> None:
        self._builder.append(definition, inputs, outputs, attrs, self._index)
        for names in outputs.values():
            for name in names:
                meta = self._builder.env[name].meta
                self.check_output(name, meta.shape, meta.dtype)
