"""Which value of a name an operator reads: names are mutable, so a value is a name and a version.

Version 0 of a name is what it holds before the block runs; each write makes the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
        made = cls(key.name)
        made.version = key.version
        return made


SlotKeys = dict[str, tuple[Key, ...]]


class ForwardOp:
    """An operator of the forward pass, with the values that it reads and writes, slot by slot."""

    __slots__ = ("index", "op", "reads", "writes")

    def __init__(self, index: int, op: Operator, reads: SlotKeys, writes: SlotKeys) -> None:
        self.index = index
        self.op = op
        self.reads = reads
        self.writes = writes

    def data_reads(self) -> Sequence[Key]:
        """The values whose data is read, by the composition of a gradient at least.

        Those of shape-only slots do not count.
        """
        definition = self.op.definition
        slots, more = definition.proto.input_slots, composition_reads(definition)
        return [
            key
            for slot, keys in self.reads.items()
            if not slots[slot].shape_only or slot in more
            for key in keys
        ]

    def written(self) -> Sequence[Key]:
        """Every value that is written."""
        return [key for keys in self.writes.values() for key in keys]

    def described(self) -> DescribedOp:
        """The operator as a rule sees it."""
        return DescribedOp(self)

    def __str__(self) -> str:
        where = "" if self.op.block is None else f" of block {self.op.block.idx}"
        return f"{self.op.type} (operator {self.index}{where})"


class DescribedOp:
    """A forward operator for a gradient rule: its names remember their versions."""

    __slots__ = ("attrs", "inputs", "outputs", "type")

    def __init__(self, forward: ForwardOp) -> None:
        self.type = forward.op.type
        self.attrs: Mapping[str, Any] = forward.op.attrs
        self.inputs = _as_names(forward.reads)
        self.outputs = _as_names(forward.writes)


def _as_names(slots: SlotKeys) -> dict[str, tuple[ForwardName, ...]]:
    return {slot: tuple([ForwardName.of(key) for key in keys]) for slot, keys in slots.items()}


class Versions:
    """The operators of a block with the values that they read and write.

    Attributes
    ----------
    forward : list of ForwardOp
        In order.
    last : dict of str to int
        The version that each written name has at the end.
    writers : dict of Key to ForwardOp
        Who wrote each value; values of version 0 are not in it.
    """

    __slots__ = ("forward", "last", "writers")

    def __init__(self, ops: Sequence[Operator]) -> None:
        self.forward: list[ForwardOp] = []
        self.last: dict[str, int] = {}
        self.writers: dict[Key, ForwardOp] = {}
        for index, op in enumerate(ops):
            self._enter(index, op)

    def _enter(self, index: int, op: Operator) -> None:
        last = self.last
        reads = {
            slot: tuple([Key(name, last.get(name, 0)) for name in names])
            for slot, names in op.inputs.items()
        }
        writes: SlotKeys = {}
        entered = ForwardOp(index, op, reads, writes)
        for slot, names in op.outputs.items():
            keys = []
            for name in names:
                last[name] = last.get(name, 0) + 1
                key = Key(name, last[name])
                self.writers[key] = entered
                keys.append(key)
            writes[slot] = tuple(keys)
        self.forward.append(entered)

    def last_key(self, name: str) -> Key:
        """The value that a name has at the end."""
        return Key(name, self.last.get(name, 0))

    def find_overwriter(self, name: str) -> ForwardOp | None:
        """Return who overwrites a forward value, None where it is there at the end."""
        if isinstance(name, ForwardName) and name.version != self.last.get(name, 0):
            return self.writers[Key(str(name), name.version + 1)]
        return None
