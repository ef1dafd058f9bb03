"""Writes gradient operators at the end of a block."""

from __future__ import annotations

from itertools import chain

from opwright.backward.routing import ForwardOp, Versions
from opwright.describe.op_proto import OpProto, VarProto
from opwright.describe.operands import names_in
from opwright.errors import GradientError
from opwright.program import Block, Operator, Program
from opwright.program.building import BlockPlace
from opwright.program.completion import Attrs, Given, Slots, Wanted, word_of
from opwright.program.operator import definition_of
from opwright.vocabulary import FILL_LIKE, OUT, X


def append_zeros(block: Block, like: str, name: str) -> str:
    """Append zeros of the shape of variable `like`; return their name, derived from `name`."""
    free = block.program.free_name(name)
    block.append_op(FILL_LIKE, {X: like}, {OUT: free}, {"value": 0.0})
    return free


class GradientEmitter(BlockPlace):
    """Writes gradient operators at the end of a block, after all forward operators.

    Outputs are temporaries at first, and are renamed once it is known which gradients they contain.
    """

    def __init__(self, block: Block, versions: Versions) -> None:
        super().__init__(block)
        self.prefix = ""  # of fresh names
        self.forward: ForwardOp | None = None  # the operator whose gradient is emitted
        self._versions = versions
        self._mentions: dict[str, list[Operator]] = {}
        self._renamed: dict[str, str] = {}

    @property
    def program(self) -> Program:
        """The program of the block."""
        return self.block.program

    def emit(self, type: str, inputs: Given, outputs: Wanted, attrs: Attrs) -> dict[str, list[str]]:
        """Emit one operator; see `opwright.describe.rule_context.Emitter`.

        Raises GradientError if a forward value is overwritten before the operator reads it.
        """
        definition = definition_of(type)
        slots = definition.proto.read_slots
        reads = (names for s, names in inputs.items() if s in slots and not slots[s].shape_only)
        for name in (*chain.from_iterable(reads), *names_in(definition.proto, attrs)):
            self.check_unchanged(name, type)
        # Names from a rule may carry versions, which must not reach the program.
        plain = {slot: tuple(map(str, names)) for slot, names in inputs.items()}
        op = self.make(definition, plain, outputs, attrs)
        self.block.add_op(op)
        for name in (*op.input_names(), *op.output_names()):
            mentions = self._mentions.get(name)
            if mentions is not None and (not mentions or mentions[-1] is not op):
                mentions.append(op)
        return {slot: list(names) for slot, names in op.outputs.items()}

    def name_output(self, proto: OpProto, slot: VarProto, named: Slots) -> str:
        """Return a fresh name for a temporary."""
        name = self.program.take_name(f"{self.prefix}/{word_of(proto, slot)}")
        self._mentions[name] = []
        return name

    def check_unchanged(self, name: str, reader: str) -> None:
        """Raise GradientError if a later operator overwrites the forward value with this name."""
        overwriter = self._versions.find_overwriter(name)
        if overwriter is not None:
            raise GradientError(
                f"{self.forward}: its gradient ({reader}) reads {str(name)!r}, which "
                f"{overwriter} overwrites before; make that write to another name"
            )

    def current_name(self, name: str) -> str:
        """Return the current name of a temporary."""
        return self._renamed.get(name, name)

    def rename(self, temporary: str, name: str) -> str | None:
        """Give a temporary a final name, based on `name`; return it, or None if it has one."""
        ops = self._mentions.pop(temporary, None)
        if ops is None:
            return None
        final = self.program.take_name(name)
        for op in ops:
            for slots in (op.inputs, op.outputs):
                for slot, names in slots.items():
                    if temporary in names:
                        slots[slot] = tuple([final if n == temporary else n for n in names])
        self.block.rename_var(temporary, final)
        self._renamed[temporary] = final
        return final
