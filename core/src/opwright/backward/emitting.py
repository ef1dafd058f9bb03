"""Where rules write their operators: at the end of a block, with names that nobody has yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opwright.backward.versions import ForwardName, ForwardOp, Versions
from opwright.describe.composite import BodyNumbers, name_outputs
from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta
from opwright.describe.op_proto import OpProto
from opwright.errors import GradientError
from opwright.program import Block, Operator, Program
from opwright.program.building import make_operator
from opwright.program.operator import definition_of

Outputs = dict[str, tuple[str, ...] | int]


class BlockEmitter:
    """What all emitters have in common: output names are made, operators are checked and kept.

    Attributes
    ----------
    block : Block
        Whose variables the operators read and write.
    add : callable
        Takes each operator to where it belongs.
    prefix : str
        What fresh names begin with.
    """

    __slots__ = ("_add", "block", "prefix")

    def __init__(self, block: Block, add: Callable[[Operator], None], prefix: str = "") -> None:
        self.block = block
        self.prefix = prefix
        self._add = add

    @property
    def program(self) -> Program:
        """The program of the block."""
        return self.block.program

    def emit(
        self,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Outputs,
        attrs: Mapping[str, Any],
    ) -> dict[str, list[str]]:
        """Write one operator; see `opwright.describe.rule_context.Emitter`."""
        definition = definition_of(type)
        self.check_inputs(definition.proto, inputs)
        inputs, attrs = self.complete(definition, inputs, attrs)
        fresh: list[str] = []

        def make_name(word: str) -> str:
            fresh.append(self._fresh(f"{self.prefix}/{word}"))
            return fresh[-1]

        names = name_outputs(definition, inputs, outputs, attrs, make_name, self.meta)
        # A rule's names may remember versions, which must not stay in the program.
        plain = {slot: [str(name) for name in given] for slot, given in inputs.items()}
        op = make_operator(self.block, type, plain, names, attrs)
        self._add(op)
        self.note(op, fresh)
        return {slot: list(written) for slot, written in op.outputs.items()}

    def check_inputs(self, proto: OpProto, inputs: Mapping[str, Sequence[str]]) -> None:
        """Raise where an operator would read a value that is gone."""

    def complete(
        self,
        definition: OpDefinition,
        inputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
    ) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Any]]:
        """Return inputs and attributes with what the operator takes over; nothing by default."""
        return inputs, attrs

    def note(self, op: Operator, fresh: Sequence[str]) -> None:
        """Take note of an operator that was written, with fresh names among its outputs."""

    def meta(self, name: str) -> Meta | None:
        """Return the meta of a variable; None where its rank is unknown."""
        return self.block.var(str(name)).meta

    def _fresh(self, name: str) -> str:
        free = self.program.free_name(name)
        self.program.note_name(free)
        return free


class BodyEmitter(BlockEmitter):
    """Writes the body of a composite into a list, in whose place the composite stood.

    A body that has overwritten an input of the composite, through an output of that name, must not
    read it any more.
    """

    __slots__ = ("_numbers", "_written", "who")

    def __init__(self, block: Block, ops: list[Operator], prefix: str, who: ForwardOp) -> None:
        super().__init__(block, ops.append, prefix)
        self.who = who
        self._numbers = BodyNumbers(who.described(), who.op.definition)
        self._written: set[str] = set()

    def complete(
        self,
        definition: OpDefinition,
        inputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
    ) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Any]]:
        """Give an operator that draws random numbers those of the composite."""
        return self._numbers.complete(definition, inputs, attrs)

    def check_inputs(self, proto: OpProto, inputs: Mapping[str, Sequence[str]]) -> None:
        """Raise GradientError where the body reads an input after it has overwritten it."""
        for names in inputs.values():
            for name in names:
                if isinstance(name, ForwardName) and name in self._written:
                    raise GradientError(
                        f"{self.who}: its body overwrites {str(name)!r} before {proto.type} reads "
                        "it; write the output to another name"
                    )

    def note(self, op: Operator, fresh: Sequence[str]) -> None:
        """Remember what was written."""
        self._written.update(op.output_names())

    @property
    def written(self) -> set[str]:
        """Every name that the body has written."""
        return self._written


class GradientEmitter(BlockEmitter):
    """Writes gradient operators at the end of a block, after all forward ones.

    A temporary can be renamed until it is adopted: gradients get their names when it is known
    what they are the gradient of.
    """

    __slots__ = ("_mentions", "_renamed", "_versions", "forward")

    def __init__(self, block: Block, versions: Versions) -> None:
        super().__init__(block, block.add_op)
        self.forward: ForwardOp | None = None
        self._versions = versions
        self._mentions: dict[str, list[Operator]] = {}
        self._renamed: dict[str, str] = {}

    def check_inputs(self, proto: OpProto, inputs: Mapping[str, Sequence[str]]) -> None:
        """Raise GradientError where a forward value is overwritten before it would be read."""
        for slot_name, names in inputs.items():
            slot = proto.input_slots.get(slot_name)
            if slot is not None and not slot.shape_only:
                for name in names:
                    self.check_kept(name, proto.type)

    def check_kept(self, name: str, reader: str) -> None:
        """Raise GradientError where the forward value of this name is overwritten later."""
        overwriter = self._versions.find_overwriter(name)
        if overwriter is not None:
            raise GradientError(
                f"{self.forward}: its gradient ({reader}) reads {str(name)!r}, which "
                f"{overwriter} overwrites before; let that write to another name"
            )

    def note(self, op: Operator, fresh: Sequence[str]) -> None:
        """Remember who mentions the temporaries."""
        for name in fresh:
            self._mentions[name] = []
        for name in {*op.input_names(), *op.output_names()}:
            if name in self._mentions:
                self._mentions[name].append(op)

    def current_name(self, name: str) -> str:
        """Return what a temporary is called by now."""
        return self._renamed.get(name, name)

    def adopt(self, temporary: str, name: str) -> str | None:
        """Give a temporary its final name, like `name`, and return it; None where it has one."""
        ops = self._mentions.pop(temporary, None)
        if ops is None:
            return None
        final = self._fresh(name)
        for op in ops:
            for slots in (op.inputs, op.outputs):
                for slot, names in slots.items():
                    if temporary in names:
                        slots[slot] = tuple([final if n == temporary else n for n in names])
        self.block.rename_var(temporary, final)
        self._renamed[temporary] = final
        return final
