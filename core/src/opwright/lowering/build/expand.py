"""Composites without a kernel: their bodies are written in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opwright.describe.composite import BodyNumbers, name_outputs, write_body
from opwright.errors import ProgramError
from opwright.lowering.graph.values import LoweredOp, Value
from opwright.describe.meta import Meta
from opwright.program import Operator

if TYPE_CHECKING:
    from opwright.lowering.build.build_graph import GraphBuilder, Names


def open_composite(
    builder: GraphBuilder,
    op: LoweredOp,
    inputs: Names,
    outputs: Names,
    before: Mapping[str, Value | None],
) -> None:
    """Append what the body of ``op`` writes to the builder's graph.

    ``before`` are the values that the names of the outputs had: the body may write a variable that
    it also reads.
    """
    env = builder.env
    promised = {name: env.pop(name) for name in before}
    given = {name: value for name, value in before.items() if value is not None}
    env.update(given)
    described = Operator.make(
        None, op.definition, _as_slots(inputs), _as_slots(outputs), dict(op.attrs)
    )
    emitter = _GraphEmitter(builder, described, op.index, next(iter(before)), promised)
    write_body(described, op.definition, emitter)
    for name, value in promised.items():
        written = env.get(name)
        found = None if written is None or written is given.get(name) else written.meta
        if found != value.meta:
            raise ProgramError(
                f"{op.type}: its body must write {name!r} as {value.meta}, got "
                f"{found or 'nothing'}; mend the body or the shape rule of the operator"
            )


def _as_slots(names: Names) -> dict[str, tuple[str, ...]]:
    return {slot: tuple(given) for slot, given in names.items()}


class _GraphEmitter:
    """Writes the operators of a body straight into the graph; there is no block."""

    def __init__(
        self,
        builder: GraphBuilder,
        composite: Operator,
        index: int,
        prefix: str,
        promised: Mapping[str, Value],
    ) -> None:
        self._builder = builder
        self._type = composite.type
        self._index = index
        self._numbers = BodyNumbers(composite, composite.definition)
        self._prefix = prefix
        self._promised = promised
        self._count = 0
        self.block: Any = None
        self.program: Any = builder.request.code.program

    def emit(
        self,
        type: str,
        inputs: dict[str, tuple[str, ...]],
        outputs: dict[str, tuple[str, ...] | int],
        attrs: dict[str, Any],
    ) -> dict[str, list[str]]:
        definition = self._builder.request.target.context.ops.get(type)
        given, completed = self._numbers.complete(definition, inputs, attrs)
        names = name_outputs(definition, given, outputs, completed, self._fresh, self.meta)
        definition.check_slots(given, names)
        filled = definition.proto.fill_attrs(completed)
        lowered = self._builder.append(definition, given, names, filled, self._index)
        if lowered is not None and lowered.is_dynamic:
            raise ProgramError(
                f"{self._type}: the body of a composite cannot have an operator whose output "
                f"shape depends on values, got {type}; write it as operators of the program"
            )
        return names

    def meta(self, name: str) -> Meta | None:
        value = self._builder.env.get(name) or self._promised.get(name)
        return None if value is None else value.meta

    def _fresh(self, word: str) -> str:
        name = f"{self._prefix}/{word}_{self._count}"
        self._count += 1
        self._builder.inner_names.add(name)
        return name
