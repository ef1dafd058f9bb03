"""Which value of a name an operator reads: names are mutable, so a value is a name and a version.

Version 0 of a name is its value before the block runs; each write makes the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from opwright.describe.rule_context import RuleOperator
from opwright.describe.second_gradients import composition_reads
from opwright.program import Operator


class Key(NamedTuple):
    """One value of a block: the name, and how often it was written before."""

    name: str
    version: int


class ForwardName(str):
    """The name of a forward value, given to gradient rules; it remembers the version."""

    __slots__ = ("version",)
    version: int

    @classmethod
    def of(cls, key: Key) -> ForwardName:
        """Return the name of a value."""
        name = cls(key.name)
        name.version = key.version
        return name


SlotKeys = dict[str, tuple[Key, ...]]
SlotNames = Mapping[str, tuple[ForwardName, ...]]


class ForwardOp:
    """An operator of the forward pass, with the values that it reads and writes, slot by slot."""

    __slots__ = ("index", "op", "reads", "writes")

    def __init__(self, index: int, op: Operator, reads: SlotKeys, writes: SlotKeys) -> None:
        self.index = index
        self.op = op
        self.reads = reads
        self.writes = writes

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the operator."""
        return self.op.attrs

    @property
    def first_output(self) -> str:
        """The name of its first output, with which the names of its gradients begin."""
        return next(self.op.output_names())

    def data_reads(self) -> Sequence[Key]:
        """Return the values whose data it, or the composition of its gradient, reads."""
        definition = self.op.definition
        slots, more = definition.proto.read_slots, composition_reads(definition)
        return [
            key
            for slot, keys in self.reads.items()
            if not slots[slot].shape_only or slot in more
            for key in keys
        ]

    def written(self) -> Iterator[Key]:
        """Yield every value that it writes."""
        return (key for keys in self.writes.values() for key in keys)

    def described(self) -> RuleOperator:
        """Return the operator as a gradient rule sees it: its names remember their versions."""
        reads, writes = _as_names(self.reads), _as_names(self.writes)
        return RuleOperator(self.op.type, reads, writes, self.op.attrs)

    def captured_name(self, slot: str, name: str) -> str:
        """Return a name with its version where the slot captures it, else the name itself."""
        keys = {key.name: key for key in self.reads.get(slot, ())}
        return ForwardName.of(keys[name]) if name in keys else name

    def wanted_positions(self, slot: str, wanted: Mapping[str, Sequence[bool]]) -> dict[str, int]:
        """Return the positions, by name, of those inputs of a slot whose gradients are wanted."""
        flags = wanted.get(slot, ())
        pairs = reversed(list(enumerate(self.reads.get(slot, ()))))
        return {key.name: position for position, key in pairs if flags[position]}

    def __str__(self) -> str:
        where = "" if self.op.block is None else f" of block {self.op.block.idx}"
        return f"{self.op.type} (operator {self.index}{where})"


def _as_names(slots: SlotKeys) -> SlotNames:
    return {slot: tuple([ForwardName.of(key) for key in keys]) for slot, keys in slots.items()}


class Versions:
    """The operators of a block with the values that they read and write."""

    def __init__(self, ops: Sequence[Operator]) -> None:
        self.forward: list[ForwardOp] = []
        self.last: dict[str, int] = {}  # the version that each written name has at the end
        self.writers: dict[Key, ForwardOp] = {}  # of each value; values of version 0 have none
        for index, op in enumerate(ops):
            self._add(index, op)

    def _add(self, index: int, op: Operator) -> None:
        last = self.last
        reads = {
            slot: tuple([Key(name, last.get(name, 0)) for name in names])
            for slot, names in op.inputs.items()
        }
        forward = ForwardOp(index, op, reads, {})
        for slot, names in op.outputs.items():
            keys = []
            for name in names:
                last[name] = last.get(name, 0) + 1
                key = Key(name, last[name])
                self.writers[key] = forward
                keys.append(key)
            forward.writes[slot] = tuple(keys)
        self.forward.append(forward)

    def last_key(self, name: str) -> Key:
        """Return the value that a name has at the end."""
        return Key(name, self.last.get(name, 0))

    def find_overwriter(self, name: str) -> ForwardOp | None:
        """Return the operator that overwrites a forward value, None where it lasts to the end."""
        if isinstance(name, ForwardName) and name.version != self.last.get(name, 0):
            return self.writers[Key(str(name), name.version + 1)]
        return None
