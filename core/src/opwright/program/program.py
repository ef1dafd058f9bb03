"""A program is a tree of blocks that describes a computation, independent of how it is run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from opwright.context.context import current_context
from opwright.context.guard import setting
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError
from opwright.messages.arguments import suggest_arguments
from opwright.program.block import Block
from opwright.program.journal import record
from opwright.program.names import make_name
from opwright.program.operator import names_read_first
from opwright.program.transforms import (
    copy_block,
    drop_training,
    infer_block,
    prune_program,
    stop_training,
)
from opwright.program.variable import Parameter, Variable, list_names
from opwright.vocabulary import STEP

_SEED_MAX = 2**63 - 1
_FREE_FIELDS = ("initializer", "optimize", "regularizer")
"""Attributes of a parameter that are not serialized."""

_PREFIX: ContextVar[str] = ContextVar("prefix", default="")


def name_guard(prefix: str) -> AbstractContextManager[str]:
    """Prefix the fresh names of programs with ``<prefix>/`` within a ``with`` block; guards nest.

    Yields
    ------
    str
        The complete prefix.
    """
    return setting(_PREFIX, f"{_PREFIX.get()}{prefix}/")


class Program:
    """A list of blocks; the first is global. Networks run programs; `append_backward` extends them.

    Parameters
    ----------
    seed : int
        The seed of random operators whose attribute ``seed`` is 0, in [0, 2**63).

    Attributes
    ----------
    blocks : list of Block
        Block 0 is the global block.
    """

    __slots__ = ("_counts", "_current_idx", "_generation", "_names", "_seed", "_streams", "blocks")

    @suggest_arguments
    def __init__(self, seed: int = 0) -> None:
        self._generation = 0
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}  # of fresh names, by prefix
        self._streams = 0
        self._current_idx = 0
        self.blocks = [Block(self, 0, None)]
        self.seed = seed

    @property
    def seed(self) -> int:
        """The seed of random numbers; runs with the same seed give equal results."""
        return self._seed

    @seed.setter
    def seed(self, seed: int) -> None:
        try:
            number = None if isinstance(seed, bool) else operator.index(seed)
        except TypeError:  # also arrays and classes, which have `__index__`
            number = None
        if number is None:
            raise AttributeTypeError(f"program: seed must be an int, got {seed!r}")
        if not 0 <= number <= _SEED_MAX:
            raise AttributeValueError(f"program: seed must be in [0, 2**63), got {seed}")
        self._seed = number
        self.touch()

    @property
    def generation(self) -> int:
        """A counter that each change increments to invalidate cached plans."""
        return self._generation

    def touch(self) -> None:
        """Invalidate cached plans; must be called by code that changes operators or attributes."""
        self._generation += 1

    def note_change(self, undo: Callable[..., object], *arguments: Any) -> None:
        """Record a change that ``undo(*arguments)`` reverts; see `opwright.program.journal`."""
        self._generation += 1
        record(self._revert, undo, arguments)

    def _revert(self, undo: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        undo(*arguments)
        self._generation += 1  # later changes must not reuse plans of reverted changes

    def global_block(self) -> Block:
        """Return block 0, which contains the parameters."""
        return self.blocks[0]

    def current_block(self) -> Block:
        """Return the block that is being built."""
        return self.blocks[self._current_idx]

    def block(self, index: int) -> Block:
        """Return a block by its index."""
        if not 0 <= index < len(self.blocks):
            raise ProgramError(
                f"program: a block index must be in [0, {len(self.blocks)}), got {index}"
            )
        return self.blocks[index]

    def create_block(self, parent_idx: int | None = None) -> Block:
        """Return a new block, which becomes the current block until `rollback`.

        Parameters
        ----------
        parent_idx : int, optional
            The enclosing block; by default the current block.
        """
        parent = self.current_block() if parent_idx is None else self.block(parent_idx)
        block = self.add_block(parent.idx)
        self._set_current(block.idx)
        return block

    def add_block(self, parent_idx: int) -> Block:
        """Return a new block within another block; the current block stays the same."""
        block = Block(self, len(self.blocks), parent_idx)
        self.blocks.append(block)
        self.note_change(self.blocks.pop)
        return block

    def _set_current(self, idx: int) -> None:
        record(setattr, self, "_current_idx", self._current_idx)
        self._current_idx = idx

    def rollback(self) -> Block:
        """Make the parent of the current block the current block, and return it."""
        parent_idx = self.current_block().parent_idx
        if parent_idx is None:
            raise ProgramError("program: rollback must follow create_block, got the global block")
        self._set_current(parent_idx)
        return self.current_block()

    def unique_name(self, prefix: str) -> str:
        """Return ``<guard prefix><prefix>_<n>``, a name that is unused in the program."""
        return make_name(_PREFIX.get() + prefix, self._counts, self._names.__contains__)

    def free_name(self, name: str) -> str:
        """Return `name` if it is free, otherwise ``<name>_<n>`` with the smallest free n."""
        if name not in self._names:
            return name
        return make_name(name, self._counts, self._names.__contains__)

    def take_name(self, name: str) -> str:
        """Reserve and return the name of `free_name`."""
        free = self.free_name(name)
        self.note_name(free)
        return free

    def note_name(self, name: str) -> None:
        """Record that a variable of this name exists."""
        if name in self._names:
            self.touch()
        else:
            self._names.add(name)
            self.note_change(self._names.discard, name)

    def next_stream(self) -> int:
        """Return a unique stream number for a random operator."""
        stream = self._streams
        self._streams += 1
        record(self.restore_streams, stream)
        return stream

    def peek_stream(self) -> int:
        """Return the number that `next_stream` returns next."""
        return self._streams

    def restore_streams(self, next_stream: int) -> None:
        """Set what `next_stream` returns next, to continue the numbering of a loaded program."""
        self._streams = next_stream

    def step_variable(self) -> Variable:
        """Return ``@step``, the persistable variable that counts runs for random operators."""
        block = self.global_block()
        if STEP in block.vars:
            return block.vars[STEP]
        return block.create_var(STEP, [1], "int64", persistable=True, stop_gradient=True)

    def parameters(self) -> list[Parameter]:
        """Return all parameters, in the order in which they were created."""
        return list(self.global_block().parameters())

    def infer_shapes(self) -> None:
        """Re-infer the shapes and dtypes of all outputs, from data and persistable variables.

        Call this after setting the shape of a data variable or parameter.
        """
        infer_block(self.global_block())

    @suggest_arguments
    def clone(self, for_inference: bool = False) -> Program:
        """Return a copy of the program, which can be changed independently.

        Parameters
        ----------
        for_inference : bool
            True returns the program of a trained network. The attribute ``training`` of operators
            such as dropout and batch_norm is false, and operators that depend on the gradients of
            `append_backward`, such as updates, are removed. The parameters stay the same; losses
            and metrics remain. Use `prune` to remove operators that given results do not need.
        """
        twin = object.__new__(Program)
        for slot in Program.__slots__:
            setattr(twin, slot, getattr(self, slot))
        twin._names = set(self._names)
        twin._counts = dict(self._counts)
        twin.blocks = [copy_block(block, twin) for block in self.blocks]
        if for_inference:
            stop_training(twin)
            drop_training(twin)
        return twin

    def stop_training(self) -> None:
        """Set the attribute ``training`` of all operators to false, as in `clone` for inference."""
        stop_training(self)

    @suggest_arguments
    def prune(self, targets: Variable | str | Iterable[Variable | str]) -> Program:
        """Return a new program with only the operators that compute the targets.

        Parameters
        ----------
        targets : Variable, name, or list of these
            Variables of the global block.
        """
        twin = self.clone()
        prune_program(twin, list_names(targets, "Program.prune: targets"))
        return twin

    def to_proto(self) -> Any:
        """Return the program as a protobuf message, ProgramDesc."""
        from opwright.framework_pb2 import ProgramDesc  # imports protobuf, 11 ms
        from opwright.program.serialize import program_to_bytes

        message = ProgramDesc.FromString(program_to_bytes(self))
        message.ClearField("checksum")
        return message

    @staticmethod
    def from_proto(message: Any) -> Program:
        """Return the program that a ProgramDesc, or its bytes, describes."""
        from opwright.program.deserialize import program_from_proto

        return program_from_proto(message, Program())

    def replace_blocks(self, blocks: list[Block]) -> None:
        """Set the blocks, numbered from 0; the global block becomes the current block."""
        self.blocks = blocks
        self._current_idx = 0
        self.touch()

    def __reduce__(self) -> tuple[Any, ...]:
        # A program is pickled as serialized bytes, because operator definitions contain functions.
        from opwright.program.serialize import program_to_bytes

        fields = {
            parameter.name: {name: getattr(parameter, name) for name in _FREE_FIELDS}
            for parameter in self.parameters()
        }
        state = (dict(self._counts), self._current_idx)  # not serialized
        return _make_program, (program_to_bytes(self), state, fields)

    def __repr__(self) -> str:
        ops = sum(len(block.ops) for block in self.blocks)
        return f"Program({len(self.blocks)} blocks, {ops} operators)"

    def __str__(self) -> str:
        from opwright.program.text import format_program

        return format_program(self)

    def _repr_html_(self) -> str | None:
        """Return a drawing made by a plugin, or None to make a notebook show the repr."""
        frame = current_context().annexes.find("kit", "frame")
        return None if frame is None else frame.load()(self)


def persistable_variables(program: Program) -> list[Variable]:
    """Return the persistable variables of a program."""
    return [var for block in program.blocks for var in block.vars.values() if var.persistable]


def feed_names(program: Program) -> list[str]:
    """Return the names to feed: names that are read before they are written and not persistable."""
    block = program.global_block()
    read = set(names_read_first(block.ops))
    return [name for name, var in block.vars.items() if name in read and not var.persistable]


def _make_program(
    data: bytes, state: tuple[Any, ...], fields: Mapping[str, Mapping[str, Any]]
) -> Program:
    program = Program.from_proto(data)
    program._counts, program._current_idx = state
    for parameter in program.parameters():
        for name, value in fields[parameter.name].items():
            setattr(parameter, name, value)
    return program
