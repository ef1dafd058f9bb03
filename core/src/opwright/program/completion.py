"""Completes an operator by filling in omitted parts, in the same way for all callers.

`Block.append_op`, gradient rules and composite bodies add operators to a program. Only bodies add
operators to a plan, and a `Network` completes its operators one at a time. All callers get output
names and counts, aliases, defaults and slot checks here. A `Place` defines the differences. Bodies
of composites are also emitted here, into a program by `append_backward` and into a plan by `lower`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta, metas_match
from opwright.describe.op_proto import AttrValue, OpProto, VarProto
from opwright.describe.operands import bind_operands, hide_operands, names_in
from opwright.describe.rule_context import BodyContext, RuleOperator
from opwright.errors import ProgramError, SlotError
from opwright.vocabulary import OUT, SEED_ATTR, STEP_SLOT, STREAM_ATTR

if TYPE_CHECKING:
    from opwright.program.building import BlockPlace

Slots = dict[str, tuple[str, ...]]
"""The names of the variables in each non-empty slot."""

Given = Mapping[str, Sequence[str]]
Names = Mapping[str, tuple[str, ...]]
Attrs = Mapping[str, Any]

Wanted = Mapping[str, "Sequence[str] | int"]
"""The output names of each slot, or the number of fresh variables."""


Place: TypeAlias = "BlockPlace | BodyEmitter"
"""The destination of an operator, which provides the parts that the definition does not give."""


def complete_operator(
    definition: OpDefinition,
    inputs: Names,
    outputs: Wanted,
    attrs: Attrs,
    place: Place | None = None,
) -> tuple[Slots, Slots, dict[str, AttrValue]]:
    """Return the complete, checked inputs, outputs and attributes of an operator, in order.

    A required output without names gets names: an aliased output is the variable of its input,
    other outputs are fresh variables, and ``count_outputs`` determines the length of a list. An
    optional output that aliases an input is present if the input is. `inputs` and `outputs` map
    slots to names; `outputs` may contain the number of fresh variables instead. None in `attrs`
    means that no value is given. Without a `place`, outputs are named after the first output, and a
    random operator has step and stream 0 unless they are given.

    Raises
    ------
    SlotError
        For a slot that is unknown, missing or has too many variables, or a list of unknown length.
    AttributeTypeError, AttributeValueError
        As in `OpProto.fill_attrs`.
    """
    proto = definition.proto
    if definition.deprecated:
        rename = definition.rename
        inputs, outputs, attrs = rename(inputs), rename(outputs), rename(attrs)
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
        proto.output(name)  # SlotError for an unknown one
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
    """Return names for an output without names; `names` may be their count."""
    if names == 0:
        return ()
    if slot.aliases is not None:
        return inputs.get(slot.aliases, ())
    if not isinstance(names, int):
        names = _count(definition, slot, inputs, attrs, place) if slot.duplicable else 1
    make_name = derived_name if place is None else place.name_output
    return [make_name(definition.proto, slot, named) for _ in range(names)]


def derived_name(proto: OpProto, slot: VarProto, named: Slots) -> str:
    """Return ``<first output>/<slot>``, the default name of an output."""
    return f"{next(iter(named.values()), (proto.type,))[0]}/{slot.name}"


def _count(
    definition: OpDefinition, slot: VarProto, inputs: Slots, attrs: Attrs, place: Place | None
) -> int:
    """Return the length of a list of outputs without names."""
    metas = [
        [None if place is None else place.meta(name) for name in inputs.get(s.name, ())]
        for s in definition.proto.inputs
    ]
    if any(None in given for given in metas):
        raise SlotError(
            f"{definition.op_type}: the number of {slot.name!r} must be given if the rank of an "
            "input is unknown, got no names; name the output variables"
        )
    known = tuple(tuple(meta for meta in given if meta is not None) for given in metas)
    attrs = hide_operands(inputs, attrs)
    return definition.output_counts(known, attrs)[definition.output_index[slot.name]]


class BodyInput(str):
    """The name of a composite's input, distinguished by type from an output of the same name."""

    __slots__ = ()


class BodyEmitter:
    """Emits the body of one composite and checks the rules for bodies.

    A body reads the inputs of the composite and its own variables, and writes the outputs of the
    composite and fresh variables. Random operators in the body use the seed and step of the
    composite. The first random operator has the stream of the composite, and each further random
    operator a stream derived from it. The streams are the same whenever the body is emitted, so a
    gradient that recomputes the body draws the numbers of the forward pass.

    Parameters
    ----------
    definition, inputs, outputs, attrs
        The definition, slots and attributes of the composite.
    promised : mapping of str to Meta or None
        The metas of the outputs, by name; None for an unknown rank.
    find_definition : callable
        Returns the definition of an operator type that is allowed in a program.
    find_meta : callable
        Returns the meta of an existing variable; None if its rank is unknown.
    free_name : callable
        Returns an unused name, derived from the given one.
    add : callable
        Adds a complete operator: its definition, inputs, outputs and attributes. The last argument
        is `check_output`, which it must call for each of the outputs.
    """

    def __init__(
        self,
        definition: OpDefinition,
        inputs: Given,
        outputs: Given,
        attrs: Attrs,
        promised: Mapping[str, Meta | None],
        *,
        find_definition: Callable[[str], OpDefinition],
        find_meta: Callable[[str], Meta | None],
        free_name: Callable[[str], str],
        add: Callable[..., object],
    ) -> None:
        marked = {slot: tuple(map(BodyInput, names)) for slot, names in inputs.items()}
        self._op = RuleOperator(definition.op_type, marked, outputs, attrs)
        self._definition = definition
        self._promised = promised
        self._inputs = {name for names in marked.values() for name in names}
        self._own = set(promised)
        self._written: set[str] = set()
        self._n_random = 0
        self.find_definition = find_definition
        self._find_meta = find_meta
        self._free_name = free_name
        self._add = add

    def write(self) -> bool:
        """Call the body; return whether it supports these attributes and inputs.

        Raises ProgramError if the body breaks a rule or does not write an output.
        """
        if self._definition.body is None:
            raise ProgramError(
                f"{self._op.type}: a composite must have a body, got an operator without one; "
                "append the operator unchanged"
            )
        if self._definition.body(BodyContext(self._op, self._definition.proto, self)) is False:
            return False
        for name in self._promised:
            if name not in self._written:
                self._fail_output(name, "nothing")
        return True

    def emit(self, type: str, inputs: Given, outputs: Wanted, attrs: Attrs) -> dict[str, list[str]]:
        """Emit one operator; see `opwright.describe.rule_context.Emitter`."""
        definition = self.find_definition(type)
        self._check_type(definition)
        for slot, names in inputs.items():
            for name in names:
                self._check_read(definition, slot, name)
        for name in names_in(definition.proto, attrs):
            self._check_read(definition, "the numbers", name)
        plain = {slot: tuple(map(str, names)) for slot, names in inputs.items()}
        completed = complete_operator(definition, plain, outputs, attrs, self)
        written = [name for names in completed[1].values() for name in names]
        for name in written:
            if name not in self._own:
                self._fail(
                    f"only write outputs and fresh variables, got {name!r} as an output of {type}; "
                    "omit the name, and copy an input that is overwritten with 'assign'"
                )
        self._add(definition, *completed, self.check_output)
        self._written.update(written)
        return {slot: list(names) for slot, names in completed[1].items()}

    def check_output(self, name: str, shape: tuple[int, ...] | None, dtype: str) -> None:
        """Raise ProgramError if an output of the composite is written with a different meta."""
        promised = self._promised.get(name)
        meta = None if shape is None else Meta(shape, dtype)
        if promised is not None and meta is not None and not metas_match(meta, promised):
            self._fail_output(name, str(meta))

    def meta(self, name: str) -> Meta | None:
        """Return the meta of a variable; None if its rank is unknown."""
        if name not in self._inputs and name not in self._own:
            self._fail(f"only ask for metas of its inputs, outputs and variables, got {name!r}")
        return self._find_meta(str(name))

    def wire_random(
        self, definition: OpDefinition, inputs: Names, attrs: Attrs
    ) -> tuple[Names, Attrs]:
        """Return inputs and attributes with step, seed and stream derived from the composite.

        Raises ProgramError if the composite is not random, since it then lacks a stream and a step.
        """
        op = self._op
        if not self._definition.random:
            raise ProgramError(
                f"{op.type}: a composite whose body draws random numbers must be built with "
                f"random=True, got {definition.op_type!r} in a body without it; give it the "
                f"attributes {SEED_ATTR!r} and {STREAM_ATTR!r} and the optional input "
                f"{STEP_SLOT!r}, which the operators of the body use"
            )
        stream = inner_stream(op.attrs.get(STREAM_ATTR) or 0, self._n_random)
        self._n_random += 1
        own = {SEED_ATTR: op.attrs.get(SEED_ATTR), STREAM_ATTR: stream}
        given = {name: value for name, value in attrs.items() if value is not None}
        return {STEP_SLOT: tuple(op.inputs.get(STEP_SLOT, ())), **inputs}, {**own, **given}

    def name_output(self, proto: OpProto, slot: VarProto, named: Slots) -> str:
        """Return a fresh name that begins with the first output of the composite."""
        name = self._free_name(f"{next(iter(self._promised))}/{word_of(proto, slot)}")
        self._own.add(name)
        return name

    @property
    def block(self) -> NoReturn:
        """Raise ProgramError, because a body may be emitted into a plan, which has no blocks."""
        self._fail("not use block or program, got a use of one; a plan has neither")

    program = block

    def _check_type(self, definition: OpDefinition) -> None:
        proto = definition.proto
        if proto.has_blocks or proto.dynamic_output:
            what = "with blocks" if proto.has_blocks else "whose output shape depends on values"
            raise ProgramError(
                f"{self._op.type}: the body of a composite cannot have an operator {what}, "
                f"got {proto.type}; write the composite as operators of the program"
            )

    def _check_read(self, definition: OpDefinition, slot: str, name: str) -> None:
        if name in self._written:
            if isinstance(name, BodyInput):
                raise ProgramError(
                    f"{self._op.type}: its body overwrites {str(name)!r} before "
                    f"{definition.op_type} reads it; write the output to another name"
                )
        elif name not in self._inputs:
            self._fail(
                "only read its inputs and variables that it has written, got "
                f"{name!r} for {slot} of {definition.op_type}; give the operator an input for it"
            )

    def _fail(self, rule: str) -> NoReturn:
        raise ProgramError(f"{self._op.type}: its body must {rule}")

    def _fail_output(self, name: str, got: str) -> NoReturn:
        promised = self._promised[name]
        meta = "" if promised is None else f" as {promised}"
        self._fail(
            f"write {name!r}{meta}, got {got}; fix the body or the shape rule of the operator"
        )


def word_of(proto: OpProto, slot: VarProto) -> str:
    """Return the last part of the fresh name of an output that a body or a rule emits."""
    return proto.type if slot is proto.outputs[0] and slot.name == OUT else slot.name


def inner_stream(stream: int, number: int) -> int:
    """Return the stream of random operator `number`, from 0, in the body of a composite.

    The first operator has the stream of the composite. Other streams are 2^31 + the low 31 bits of
    the CRC-32 of ``<stream>/<number>``. Program streams, numbered from 0, never reach these.
    """
    if number == 0:
        return stream
    return 2**31 | zlib.crc32(f"{stream}/{number}".encode())
