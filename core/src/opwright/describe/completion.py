"""Completing an operator: what its writer leaves out is filled in alike wherever it is written.

Operators are written into a program by `Block.append_op`, by gradient rules and by the bodies of
composites, into a plan by bodies alone, and one at a time for a `Network`. Names of outputs, how
many of them a list has, aliases, defaults and the checks of slots are the same for all of them.
What differs is a `Place`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta
from opwright.describe.op_proto import AttrValue, OpProto, VarProto
from opwright.errors import SlotError

Slots = dict[str, tuple[str, ...]]
"""The names of the variables in each slot that has some."""

Given = Mapping[str, Sequence[str]]
Names = Mapping[str, tuple[str, ...]]
Attrs = Mapping[str, Any]

Wanted = Mapping[str, "Sequence[str] | int"]
"""Names of the outputs by slot, or how many fresh ones."""


class Place(Protocol):
    """Where an operator is written: what its definition does not know."""

    def wire_random(
        self, definition: OpDefinition, inputs: Names, attrs: Attrs
    ) -> tuple[Names, Attrs]:
        """Return inputs and attributes of a random operator with its step and its stream.

        A step slot without names declines the step.
        """

    def name_output(self, proto: OpProto, slot: VarProto, named: Slots) -> str:
        """Return a fresh name for an output; `named` are those of the slots before it."""

    def meta(self, name: str) -> Meta | None:
        """Return the meta of a variable; None where its rank is unknown."""


def complete_operator(
    definition: OpDefinition,
    inputs: Names,
    outputs: Wanted,
    attrs: Attrs,
    place: Place,
) -> tuple[Slots, Slots, dict[str, AttrValue]]:
    """Return inputs, outputs and attributes of an operator, complete, checked and in order.

    An output without names that is not optional gets some: an aliased one is the variable of its
    input, others are fresh, and a list is as long as ``count_outputs`` says. An optional one that
    is aliased is there where its input is.

    Parameters
    ----------
    definition : OpDefinition
        The operator.
    inputs : mapping
        Names by slot; a slot without names is absent.
    outputs : mapping
        Names by slot, or how many fresh ones.
    attrs : mapping
        The attributes that are given; None stands for not given.
    place : Place
        Where the operator is written.

    Raises
    ------
    SlotError
        For a slot that is unknown, missing or too full, and where the length of a list cannot be
        known.
    AttributeTypeError, AttributeValueError
        As `OpProto.fill_attrs` does.
    """
    proto = definition.proto
    if definition.random:
        inputs, attrs = place.wire_random(definition, inputs, attrs)
    bound = _in_order(proto.input_slots, inputs)
    filled = proto.fill_attrs(attrs)
    named: Slots = {}
    for slot in proto.outputs:
        wanted = outputs.get(slot.name, ())
        is_left_out = slot.optional and not bound.get(slot.aliases or "")
        if isinstance(wanted, int) or not (wanted or is_left_out):
            wanted = _name_output(definition, slot, wanted, bound, filled, named, place)
        if wanted:
            named[slot.name] = tuple(wanted)
    for name in outputs:
        if name not in proto.output_slots:
            proto.output(name)
    definition.check_slots(bound, named)
    return bound, named, filled


def _in_order(slots: Mapping[str, VarProto], given: Names) -> Slots:
    """Return the slots that have names, in the order of the OpProto; unknown ones come last."""
    ordered = {name: given[name] for name in slots if given.get(name)}
    if len(ordered) != len(given):
        ordered.update({name: names for name, names in given.items() if names})
    return ordered


def _name_output(
    definition: OpDefinition,
    slot: VarProto,
    wanted: Sequence[str] | int,
    inputs: Slots,
    attrs: Attrs,
    named: Slots,
    place: Place,
) -> Sequence[str]:
    """Return names for an output without any; `wanted` may give their number."""
    if wanted == 0:
        return ()
    if slot.aliases is not None:
        return inputs.get(slot.aliases, ())
    if not isinstance(wanted, int):
        wanted = _count(definition, slot, inputs, attrs, place) if slot.duplicable else 1
    if wanted == 1:
        return (place.name_output(definition.proto, slot, named),)
    return [place.name_output(definition.proto, slot, named) for _ in range(wanted)]


def _count(
    definition: OpDefinition, slot: VarProto, inputs: Slots, attrs: Attrs, place: Place
) -> int:
    """Return how many variables a list has where nothing says so."""
    metas = [[place.meta(name) for name in inputs.get(s.name, ())] for s in definition.proto.inputs]
    if any(meta is None for given in metas for meta in given):
        raise SlotError(
            f"{definition.op_type}: the number of {slot.name!r} must be given where the rank of an "
            "input is unknown, got no names; name the output variables"
        )
    known = tuple(tuple(meta for meta in given if meta is not None) for given in metas)
    return definition.output_counts(known, attrs)[definition.output_index[slot.name]]
