"""Composites without a kernel: their bodies are written in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opwright.errors import ProgramError
from opwright.gradient_context import BodyContext
from opwright.lowering.values import LoweredOp, Value
from opwright.meta import Meta

if TYPE_CHECKING:
    from opwright.definition import Body
    from opwright.lowering.build_graph import GraphBuilder, Names


def open_composite(
    builder: GraphBuilder,
    op: LoweredOp,
    body: Body,
    inputs: Names,
    outputs: Names,
    before: Mapping[str, Value | None],
) -> None:
    """Append what the body of ``op`` writes to the builder's graph.

    ``before`` are the values that the names of the outputs had: the body may write a variable that
    it also reads.
    """
    definition = op.definition
    env = builder.env
    promised = {name: env.pop(name) for name in before}
    given = {name: value for name, value in before.items() if value is not None}
    env.update(given)
    emitter = _GraphEmitter(builder, op, next(iter(before)), promised)
    described = _Described(op.type, inputs, outputs, op.attrs)
    body(BodyContext(described, definition.proto, emitter))
    for name, value in promised.items():
        written = env.get(name)
        found = None if written is None or written is given.get(name) else written.meta
        if found != value.meta:
            raise ProgramError(
                f"{op.type}: its body must write {name!r} as {value.meta}, got "
                f"{found or 'nothing'}; mend the body or the shape rule of the operator"
            )


class _Described:
    """The description of an operator, as rules read it."""

    __slots__ = ("attrs", "inputs", "outputs", "type")

    def __init__(self, type: str, inputs: Names, outputs: Names, attrs: Any) -> None:
        self.type = type
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs


class _GraphEmitter:
    """Writes the operators of a body straight into the graph; there is no block."""

    def __init__(
        self, builder: GraphBuilder, op: LoweredOp, prefix: str, promised: Mapping[str, Value]
    ) -> None:
        self._builder = builder
        self._op = op
        self._prefix = prefix
        self._promised = promised
        self._count = 0
        self.block: Any = None
        self.program: Any = builder.request.program

    def emit(
        self,
        type: str,
        inputs: dict[str, tuple[str, ...]],
        outputs: dict[str, tuple[str, ...] | int],
        attrs: dict[str, Any],
    ) -> dict[str, list[str]]:
        definition = self._builder.request.context.ops.get(type)
        names: dict[str, list[str]] = {}
        for slot in definition.proto.outputs:
            wanted = outputs.get(slot.name, 0 if slot.optional else 1)
            names[slot.name] = (
                [self._fresh(type) for _ in range(wanted)]
                if isinstance(wanted, int)
                else list(wanted)
            )
        definition.check_slots(inputs, names)
        filled = definition.proto.fill_attrs(attrs)
        lowered = self._builder.append(definition, inputs, names, filled, self._op.index)
        if lowered is not None and lowered.is_dynamic:
            raise ProgramError(
                f"{self._op.type}: the body of a composite cannot have an operator whose output "
                f"shape depends on values, got {type}; write it as operators of the program"
            )
        return names

    def meta(self, name: str) -> Meta | None:
        value = self._builder.env.get(name) or self._promised.get(name)
        return None if value is None else value.meta

    def _fresh(self, type: str) -> str:
        name = f"{self._prefix}/{type}_{self._count}"
        self._count += 1
        self._builder.inner_names.add(name)
        return name
