"""Composites: how a body is written, and how the operators that it writes are completed.

A body is written in two places: into a program, by `append_backward`, and into a plan, by `lower`.
What it leaves out means the same in both, for it is filled in here: names of outputs, how many of
them a list has, and the random numbers of the operators that draw some.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta
from opwright.describe.op_proto import VarProto
from opwright.describe.rule_context import BodyContext, Emitter, RuleOperator
from opwright.describe.vocabulary import OUT, SEED_ATTR, STEP_SLOT, STREAM_ATTR
from opwright.errors import ProgramError, SlotError

Wanted = Mapping[str, "Sequence[str] | int"]
"""Names of the outputs by slot, or how many fresh ones."""


def write_body(op: RuleOperator, definition: OpDefinition, emitter: Emitter) -> None:
    """Have the body of a composite write its operators."""
    if definition.body is None:
        raise ProgramError(
            f"{op.type}: a composite must have a body, got an operator without; append it as it is"
        )
    definition.body(BodyContext(op, definition.proto, emitter))


def name_outputs(
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[str]],
    outputs: Wanted,
    attrs: Mapping[str, Any],
    fresh: Callable[[str], str],
    find_meta: Callable[[str], Meta | None],
) -> dict[str, list[str]]:
    """Return the names of all outputs of an operator that a body or a rule writes, slot by slot.

    An aliased output is the variable of its input. A required slot that is not in `outputs` gets a
    fresh variable, a list as many as ``count_outputs`` says; an optional one is left out.

    Parameters
    ----------
    definition : OpDefinition
        The operator.
    inputs, outputs, attrs : mapping
        As `opwright.describe.rule_context.Emitter.emit` takes them.
    fresh : callable
        From a word to a name that begins like it and is not taken.
    find_meta : callable
        From a name to the meta of the variable, None where its rank is unknown.

    Raises
    ------
    SlotError
        For an unknown output, and where the length of a list cannot be known.
    """
    proto = definition.proto
    for name in outputs:
        proto.output(name)
    names: dict[str, list[str]] = {}
    for slot in proto.outputs:
        wanted = outputs.get(slot.name, 0 if slot.optional else None)
        if wanted is not None and not isinstance(wanted, int):
            names[slot.name] = [str(name) for name in wanted]
        elif wanted == 0:
            continue
        elif slot.aliases is not None:
            names[slot.name] = [str(name) for name in inputs.get(slot.aliases, ())]
        else:
            count = wanted or _count(definition, slot, inputs, attrs, find_meta)
            word = proto.type if slot is proto.outputs[0] and slot.name == OUT else slot.name
            names[slot.name] = [fresh(word) for _ in range(count)]
    return names


def _count(
    definition: OpDefinition,
    slot: VarProto,
    inputs: Mapping[str, Sequence[str]],
    attrs: Mapping[str, Any],
    find_meta: Callable[[str], Meta | None],
) -> int:
    """How many variables a required slot has where nothing says so."""
    if not slot.duplicable:
        return 1
    metas = [[find_meta(name) for name in inputs.get(s.name, ())] for s in definition.proto.inputs]
    if any(meta is None for given in metas for meta in given):
        raise SlotError(
            f"{definition.op_type}: the number of {slot.name!r} must be given where the rank of an "
            f"input is unknown, got no names; write outputs={{{slot.name!r}: n}}"
        )
    known = tuple(tuple(meta for meta in given if meta is not None) for given in metas)
    counts = definition.output_counts(known, definition.proto.fill_attrs(attrs))
    return counts[definition.output_index[slot.name]]


class BodyNumbers:
    """The random numbers of one composite, given to the operators of its body that draw some.

    They draw with the composite's seed and at its step. The first of them has its stream, and each
    further one a stream that follows from it: the same wherever and whenever the body is written.
    A gradient that computes the body again so finds the numbers of the forward pass.
    """

    __slots__ = ("_count", "_op", "_random")

    def __init__(self, op: RuleOperator, definition: OpDefinition) -> None:
        self._op = op
        self._random = definition.random
        self._count = 0

    def complete(
        self,
        definition: OpDefinition,
        inputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
    ) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Any]]:
        """Return inputs and attributes of an operator of the body, complete where it draws.

        Raises
        ------
        ProgramError
            Where the composite says that it draws none: it has no stream, and no step.
        """
        if not definition.random:
            return inputs, attrs
        op = self._op
        if not self._random:
            raise ProgramError(
                f"{op.type}: a composite whose body draws random numbers must be built with "
                f"random=True, got {definition.op_type!r} in the body of one without; give it the "
                f"attributes {SEED_ATTR!r} and {STREAM_ATTR!r} and the optional input "
                f"{STEP_SLOT!r}, which the operators of the body take over"
            )
        stream = inner_stream(op.attrs.get(STREAM_ATTR), self._count)
        self._count += 1
        own = {SEED_ATTR: op.attrs.get(SEED_ATTR), STREAM_ATTR: stream}
        return (
            {STEP_SLOT: op.inputs.get(STEP_SLOT, ()), **inputs},
            {**{name: value for name, value in own.items() if value is not None}, **attrs},
        )


def inner_stream(stream: int | None, number: int) -> int | None:
    """Return the stream of the random operator `number`, from 0, in the body of a composite.

    That of the composite for the first. For others 2^31 + the low 31 bits of the CRC-32 of
    ``<stream>/<number>``: programs number their own streams from 0 on, and never come there.
    """
    if number == 0:
        return stream
    return 2**31 | zlib.crc32(f"{stream or 0}/{number}".encode())
