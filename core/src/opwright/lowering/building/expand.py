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
    if emitter.write():
        return True
    env.update(promised)
    return False
