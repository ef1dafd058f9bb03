"""Writes the bodies of composites, into a program by `append_backward` and into a plan by `lower`.

The rules for bodies, and what is filled in, are the same in both. A subclass of `BodyEmitter` says
where the operators go.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NoReturn

from opwright.describe.completion import Attrs, Given, Names, Slots, Wanted, complete_operator
from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta, metas_match
from opwright.describe.op_proto import AttrValue, OpProto, VarProto
from opwright.describe.operands import names_in
from opwright.describe.rule_context import BodyContext, RuleOperator
from opwright.errors import ProgramError
from opwright.vocabulary import OUT, SEED_ATTR, STEP_SLOT, STREAM_ATTR


class BodyInput(str):
    """The name of an input of a composite, distinct from an output of the same name."""

    __slots__ = ()


class BodyEmitter(ABC):
    """Writes the body of one composite and checks the rules for bodies.

    A body reads the inputs of the composite and what it has written itself, and writes the outputs
    of the composite and fresh variables. Its random operators draw with the composite's seed and at
    its step. The first one has the composite's stream, and each further one a stream derived from
    it, the same whenever the body is written. So a gradient that computes the body again draws the
    numbers of the forward pass.
    """

    def __init__(
        self,
        definition: OpDefinition,
        inputs: Given,
        outputs: Given,
        attrs: Attrs,
        promised: Mapping[str, Meta | None],
    ) -> None:
        """Begin a body; `promised` maps names of outputs to metas, None for an unknown rank."""
        marked = {slot: tuple(map(BodyInput, names)) for slot, names in inputs.items()}
        self._op = RuleOperator(definition.op_type, marked, outputs, attrs)
        self._definition = definition
        self._promised = promised
        self._inputs = {name for names in marked.values() for name in names}
        self._own = set(promised)
        self._written: set[str] = set()
        self._n_random = 0

    @abstractmethod
    def find_definition(self, type: str) -> OpDefinition:
        """Return the definition of an operator type that is allowed in a program."""

    @abstractmethod
    def find_meta(self, name: str) -> Meta | None:
        """Return the meta of an existing variable; None where its rank is unknown."""

    @abstractmethod
    def free_name(self, name: str) -> str:
        """Return a name like this one that no variable has."""

    @abstractmethod
    def add(
        self, definition: OpDefinition, inputs: Slots, outputs: Slots, attrs: dict[str, AttrValue]
    ) -> None:
        """Add a complete operator, and call `check_output` for each of its outputs."""

    def write(self) -> None:
        """Call the body; ProgramError where it breaks a rule or does not write an output."""
        if self._definition.body is None:
            raise ProgramError(
                f"{self._op.type}: a composite must have a body, got an operator without one; "
                "append the operator unchanged"
            )
        self._definition.body(BodyContext(self._op, self._definition.proto, self))
        for name in self._promised:
            if name not in self._written:
                self._fail_output(name, "nothing")

    def emit(self, type: str, inputs: Given, outputs: Wanted, attrs: Attrs) -> dict[str, list[str]]:
        """Write one operator; see `opwright.describe.rule_context.Emitter`."""
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
                    f"write its outputs and fresh variables, got {name!r} as an output of {type}; "
                    "leave the name out, and copy an input that is overwritten with 'assign'"
                )
        self.add(definition, *completed)
        self._written.update(written)
        return {slot: list(names) for slot, names in completed[1].items()}

    def check_output(self, name: str, shape: tuple[int, ...] | None, dtype: str) -> None:
        """Raise ProgramError where an output of the composite is written with another meta."""
        promised = self._promised.get(name)
        meta = None if shape is None else Meta(shape, dtype)
        if promised is not None and meta is not None and not metas_match(meta, promised):
            self._fail_output(name, str(meta))

    def meta(self, name: str) -> Meta | None:
        """Return the meta of a variable; None where its rank is unknown."""
        if name not in self._inputs and name not in self._own:
            self._fail(
                f"ask for metas of its inputs, its outputs and what it has written, got {name!r}"
            )
        return self.find_meta(str(name))

    def wire_random(
        self, definition: OpDefinition, inputs: Names, attrs: Attrs
    ) -> tuple[Names, Attrs]:
        """Return inputs and attributes with step, seed and stream that follow from the composite's.

        Raises ProgramError where the composite is not random: it then has no stream and no step.
        """
        op = self._op
        if not self._definition.random:
            raise ProgramError(
                f"{op.type}: a composite whose body draws random numbers must be built with "
                f"random=True, got {definition.op_type!r} in the body of one without; give it the "
                f"attributes {SEED_ATTR!r} and {STREAM_ATTR!r} and the optional input "
                f"{STEP_SLOT!r}, which the operators of the body take over"
            )
        stream = inner_stream(op.attrs.get(STREAM_ATTR) or 0, self._n_random)
        self._n_random += 1
        own = {SEED_ATTR: op.attrs.get(SEED_ATTR), STREAM_ATTR: stream}
        given = {name: value for name, value in attrs.items() if value is not None}
        return {STEP_SLOT: tuple(op.inputs.get(STEP_SLOT, ())), **inputs}, {**own, **given}

    def name_output(self, proto: OpProto, slot: VarProto, named: Slots) -> str:
        """Return a fresh name, which begins with the first output of the composite."""
        name = self.free_name(f"{next(iter(self._promised))}/{word_of(proto, slot)}")
        self._own.add(name)
        return name

    @property
    def block(self) -> NoReturn:
        """Always raise ProgramError: a body may be written into a plan, which has no blocks."""
        self._fail("not use block or program, got a use of one; a plan has neither")

    program = block

    def _check_type(self, definition: OpDefinition) -> None:
        proto = definition.proto
        if proto.has_blocks or proto.dynamic_output:
            what = "with blocks" if proto.has_blocks else "whose output shape depends on values"
            raise ProgramError(
                f"{self._op.type}: the body of a composite cannot have an operator {what}, "
                f"got {proto.type}; write it as operators of the program"
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
                "read its inputs and what it has written, got "
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
    """Return the last word of the fresh name of an output that a body or a rule writes."""
    return proto.type if slot is proto.outputs[0] and slot.name == OUT else slot.name


def inner_stream(stream: int, number: int) -> int:
    """Return the stream of random operator `number`, from 0, in the body of a composite.

    The first has the stream of the composite. Others have 2^31 + the low 31 bits of the CRC-32 of
    ``<stream>/<number>``: programs number their own streams from 0 and never reach these.
    """
    if number == 0:
        return stream
    return 2**31 | zlib.crc32(f"{stream}/{number}".encode())
