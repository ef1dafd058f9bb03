"""Completes an operator: fills in what its writer left out, in the same way everywhere.

Operators are written into a program by `Block.append_op`, by gradient rules and by the bodies of
composites, into a plan by bodies alone, and one at a time for a `Network`. All of them get the
names and the number of outputs, aliases, defaults and checks of slots here. A `Place` says what
differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta
from opwright.describe.op_proto import AttrValue, OpProto, VarProto
from opwright.describe.operands import bind_operands, hide_operands
from opwright.errors import SlotError

Slots = dict[str, tuple[str, ...]]
"""The names of the variables in each slot that has some."""

Given = Mapping[str, Sequence[str]]
Names = Mapping[str, tuple[str, ...]]
Attrs = Mapping[str, Any]

Wanted = Mapping[str, "Sequence[str] | int"]
"""The names of the outputs of each slot, or a number of fresh variables."""


class Place(Protocol):
    """Where an operator is written; answers what the definition of the operator does not say."""

    def wire_random(
        self, definition: OpDefinition, inputs: Names, attrs: Attrs
    ) -> tuple[Names, Attrs]:
        """Return inputs and attributes of a random operator, with its step and its stream.

        Where the step slot has an empty list of names, the operator gets no step.
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
    place: Place | None = None,
) -> tuple[Slots, Slots, dict[str, AttrValue]]:
    """Return the complete and checked inputs, outputs and attributes of an operator, in order.

    An output that is not optional and has no names gets some: an aliased one is the variable of its
    input, others are fresh, and a list is as long as ``count_outputs`` says. An optional output
    that is aliased is present where its input is. `inputs` and `outputs` map slots to names, and
    `outputs` may give a number of fresh variables instead. None among `attrs` means that no value
    is given. Without a `place` outputs are named after the first one, and a random operator has the
    step and stream 0 unless they are given.

    Raises
    ------
    SlotError
        For a slot that is unknown, missing or has too many variables, and where the length of a
        list is unknown.
    AttributeTypeError, AttributeValueError
        As `OpProto.fill_attrs` does.
    """
    proto = definition.proto
    if definition.random and place is not None:
        inputs, attrs = place.wire_random(definition, inputs, attrs)
    if proto.operands:
        inputs, attrs = bind_operands(proto, inputs, attrs, place.meta if place else None)
    bound = _in_order(proto.read_slots, inputs)
    filled = proto.fill_attrs(attrs, bound)
    named: Slots = {}
    for slot in proto.outputs:
        names = outputs.get(slot.name, ())
        is_absent = slot.optional and not bound.get(slot.aliases or "")
        if isinstance(names, int) or not (names or is_absent):
            names = _name_output(definition, slot, names, bound, filled, named, place)
        if names:
            named[slot.name] = tuple(names)
    for name in outputs:
        if name not in proto.output_slots:
            proto.output(name)
    definition.check_slots(bound, named)
    return bound, named, filled


def _in_order(slots: Mapping[str, VarProto], given: Names) -> Slots:
    ordered = {name: given[name] for name in slots if given.get(name)}
    if len(ordered) != len(given):
        ordered.update({name: names for name, names in given.items() if names})
    return ordered


def _name_output(
    definition: OpDefinition,
    slot: VarProto,
    names: Sequence[str] | int,
    inputs: Slots,
    attrs: Attrs,
    named: Slots,
    place: Place | None,
) -> Sequence[str]:
    """Return names for an output without any; `names` may be their number."""
    if names == 0:
        return ()
    if slot.aliases is not None:
        return inputs.get(slot.aliases, ())
    if not isinstance(names, int):
        names = _count(definition, slot, inputs, attrs, place) if slot.duplicable else 1
    make_name = derived_name if place is None else place.name_output
    return [make_name(definition.proto, slot, named) for _ in range(names)]


def derived_name(proto: OpProto, slot: VarProto, named: Slots) -> str:
    """Return ``<first output>/<slot>``, the name of an output without one."""
    return f"{next(iter(named.values()), (proto.type,))[0]}/{slot.name}"


def _count(
    definition: OpDefinition, slot: VarProto, inputs: Slots, attrs: Attrs, place: Place | None
) -> int:
    """Return the length of a list of outputs that has no names."""
    metas = [
        [None if place is None else place.meta(name) for name in inputs.get(s.name, ())]
        for s in definition.proto.inputs
    ]
    if any(None in given for given in metas):
        raise SlotError(
            f"{definition.op_type}: the number of {slot.name!r} must be given where the rank of an "
            "input is unknown, got no names; name the output variables"
        )
    known = tuple(tuple(meta for meta in given if meta is not None) for given in metas)
    attrs = hide_operands(inputs, attrs)
    return definition.output_counts(known, attrs)[definition.output_index[slot.name]]
