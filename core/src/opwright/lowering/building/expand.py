"""Replaces composites without a kernel by their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta
from opwright.lowering.graph.values import LoweredOp, Value
from opwright.program.building import CheckOutput
from opwright.program.completion import Attrs, BodyEmitter, Slots
from opwright.program.operator import definition_of

if TYPE_CHECKING:
    from opwright.lowering.building.build_graph import GraphBuilder, Names


def open_composite(
    builder: GraphBuilder,
    op: LoweredOp,
    inputs: Names,
    outputs: Names,
    written: Mapping[str, Value],
) -> bool:
    """Append the operators of ``op``'s body to the builder's graph, if there is a body.

    ``written`` are the outputs of ``op`` by name, which the builder does not have yet.
    """
    env = builder.env
    metas = {name: value.meta for name, value in written.items()}

    def find_meta(name: str) -> Meta:
        value = env.get(name)
        return metas[name] if value is None else value.meta

    def add(
        definition: OpDefinition, inputs: Slots, outputs: Slots, attrs: Attrs, check: CheckOutput
    ) -> None:
        builder.append(definition, inputs, outputs, attrs, op.index)
        for names in outputs.values():
            for name in names:
                check(name, *env[name].meta)

    emitter = BodyEmitter(
        op.definition,
        inputs,
        outputs,
        op.attrs,
        metas,
        find_definition=partial(definition_of, operators=builder.request.target.context.ops),
        find_meta=find_meta,
        free_name=builder.free_name,
        add=add,
    )
    return emitter.write()
