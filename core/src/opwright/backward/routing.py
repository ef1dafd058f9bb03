"""Finds the operators through which gradients flow, and why a gradient stops.

Composites without a gradient rule on a path are replaced by their bodies in the program itself.
Names are mutable, so a value consists of a name and a version. Version 0 is the value before the
block runs, and each write creates the next version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from opwright.describe.definition import NoGradient
from opwright.describe.dtypes import is_float
from opwright.describe.rule_context import RuleOperator
from opwright.describe.second_gradients import composition_reads
from opwright.errors import OpwrightError
from opwright.program import Block, Operator
from opwright.program.building import enter_operator
from opwright.program.completion import BodyEmitter
from opwright.program.operator import definition_of


class Key(NamedTuple):
    """One value of a block: its name, and the number of writes of that name so far."""

    name: str
    version: int


class ForwardName(str):
    """The name of a forward value, passed to gradient rules; it carries the version."""

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
        """The name of its first output, which is the prefix of its gradient names."""
        return next(self.op.output_names())

    def data_reads(self) -> Sequence[Key]:
        """Return the values whose data the operator, or the composition of its gradient, reads."""
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
        """Return the operator as a gradient rule sees it, with versions in its names."""
        reads, writes = _as_names(self.reads), _as_names(self.writes)
        return RuleOperator(self.op.type, reads, writes, self.op.attrs)

    def captured_name(self, slot: str, name: str) -> str:
        """Return a name with its version if the slot captures it, otherwise the name itself."""
        keys = {key.name: key for key in self.reads.get(slot, ())}
        return ForwardName.of(keys[name]) if name in keys else name

    def wanted_positions(self, slot: str, wanted: Mapping[str, Sequence[bool]]) -> dict[str, int]:
        """Return the positions in a slot with wanted gradients, by variable name."""
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
        self.writers: dict[Key, ForwardOp] = {}  # the writer of each value; version 0 has none
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
        """Return the operator that overwrites a forward value, or None if it lasts to the end."""
        if isinstance(name, ForwardName) and name.version != self.last.get(name, 0):
            return self.writers[Key(str(name), name.version + 1)]
        return None


class Stop(NamedTuple):
    """The reason why a gradient ends, and whether the user requested that."""

    reason: str
    is_asked: bool


class Route(NamedTuple):
    """Everything that determines a walk over the operators of a block."""

    block: Block
    versions: Versions
    paths: Paths
    wanted: dict[str, Key]  # the values whose gradients are requested, by name
    needed: set[Key]  # the values whose gradients are needed on a path
    path: list[ForwardOp]  # the operators through which gradients flow, in order
    stopped: Collection[str]  # more names through which no gradient flows
    reached: Collection[str]  # the wanted variables that the targets depend on


class Paths:
    """The dependents of the wanted variables, the dependencies of the targets, and values in both.

    ``influence`` contains all values that the targets depend on, differentiably or not.
    """

    __slots__ = ("_block", "_stopped", "_targets", "_versions", "influence")

    def __init__(
        self, block: Block, versions: Versions, targets: Iterable[Key], stopped: Collection[str]
    ) -> None:
        self._block = block
        self._versions = versions
        self._targets = tuple(targets)
        self._stopped = stopped
        self.influence = set(self._targets)
        for forward in reversed(versions.forward):
            if not self.influence.isdisjoint(forward.written()):
                self.influence.update(forward.data_reads())

    def find_needed(self, wanted: Iterable[Key]) -> set[Key]:
        """Return all values that depend on `wanted` through operators with gradients."""
        needed = set(wanted)
        for forward in self._versions.forward:
            if isinstance(forward.op.definition.gradient, NoGradient):
                continue
            if not needed.isdisjoint(forward.data_reads()):
                needed.update(key for key in forward.written() if self.find_stop(key) is None)
        return needed

    def find_path(self, needed: set[Key]) -> list[ForwardOp]:
        """Return the operators through which gradients flow, in order."""
        reached = {key for key in self._targets if key in needed}
        path = []
        for forward in reversed(self._versions.forward):
            if reached.isdisjoint(forward.written()):
                continue
            flowing = [key for key in forward.data_reads() if key in needed]
            if flowing:
                reached.update(flowing)
                path.append(forward)
        return path[::-1]

    def find_stop(self, key: Key) -> Stop | None:
        """Return why no gradient flows to or through a value, or None if a gradient can flow."""
        name = key.name
        if name in self._stopped:
            return Stop(f"{name!r} is in no_grad", True)
        variable = self._block.find_var(name)
        if variable is None or not is_float(variable.dtype):
            return Stop(f"{variable!r} does not have a float dtype, so it has no gradient", False)
        if variable.stop_gradient:
            return Stop(f"{name!r} has stop_gradient=True", True)
        return None

    def find_blocks(self, wanted: Key) -> list[tuple[ForwardOp, Stop]]:
        """Return the operators at which a value's gradient ends, in order, with reasons."""
        needed = self.find_needed([wanted])
        blocks = []
        for forward in self._versions.forward:
            if needed.isdisjoint(forward.data_reads()):
                continue
            gradient = forward.op.definition.gradient
            for key in forward.written():
                if key not in self.influence or key in needed:
                    continue
                if isinstance(gradient, NoGradient):
                    stop = Stop(f"it has no gradient: {gradient.reason}", False)
                elif self._is_selection(forward, key):
                    continue
                else:
                    stop = self.find_stop(key) or Stop(f"{key.name!r} has no gradient", False)
                blocks.append((forward, stop))
                break
        return blocks

    def _is_selection(self, forward: ForwardOp, key: Key) -> bool:
        """Whether a value only identifies selected elements, like the index output of max_pool2d.

        Such a value is not float and only the gradient operator reads it, so its gradient is zero.
        """
        slots = forward.op.definition.proto.outputs
        is_saved = any(s.intermediate and key in forward.writes.get(s.name, ()) for s in slots)
        variable = self._block.find_var(key.name)
        readers = (f.op.definition for f in self._versions.forward if key in f.data_reads())
        return (
            is_saved
            and variable is not None
            and not is_float(variable.dtype)
            and all(reader.forward == forward.op.type for reader in readers)
        )


def find_route(
    block: Block,
    targets: Collection[str],
    wanted: Collection[str] | None,
    stopped: Collection[str],
) -> Route:
    """Expand composites, and return the route of gradients from targets to wanted variables.

    By default all trainable parameters on which the targets depend are wanted. If the body of a
    composite does not read the values of an input, as for an empty result, the input counts as
    reached, with a gradient of zero.
    """
    reached: Collection[str] | None = None
    while True:
        versions = Versions(block.ops)
        paths = Paths(block, versions, [versions.last_key(name) for name in targets], stopped)
        if wanted is None:
            wanted = _reached_parameters(block, paths)
        keys = {name: _wanted_key(block, versions, name) for name in wanted}
        if reached is None:
            reached = {name for name, key in keys.items() if key in paths.influence}
        needed = paths.find_needed(keys.values())
        path = paths.find_path(needed)
        composites = [forward for forward in path if _needs_expansion(forward)]
        if not composites:
            return Route(block, versions, paths, keys, needed, path, stopped, reached)
        _expand_composites(block, versions, composites)


def _reached_parameters(block: Block, paths: Paths) -> list[str]:
    return [
        parameter.name
        for parameter in block.program.parameters()
        if parameter.trainable
        and Key(parameter.name, 0) in paths.influence
        and paths.find_stop(Key(parameter.name, 0)) is None
    ]


def _wanted_key(block: Block, versions: Versions, name: str) -> Key:
    """Return the initial value of a given variable, or the last value of any other variable."""
    variable = block.find_var(name)
    if variable is not None and (variable.persistable or variable.is_data):
        return Key(name, 0)
    return versions.last_key(name)


def _needs_expansion(forward: ForwardOp) -> bool:
    """Whether differentiating an operator means differentiating its body."""
    definition = forward.op.definition
    return definition.gradient is None and definition.body is not None


def _expand_composites(block: Block, versions: Versions, chosen: Collection[ForwardOp]) -> None:
    """Replace the chosen operators by their bodies; temporaries are named ``<output>/…``."""
    indices = {forward.index for forward in chosen}
    ops: list[Operator] = []
    for forward in versions.forward:
        if forward.index not in indices:
            ops.append(forward.op)
            continue
        try:
            if not _write_body(block, forward.op, ops):
                ops.append(forward.op)
        except OpwrightError as error:
            error.add_note(f"in the body of {forward}")
            raise
    block.replace_ops(ops)


def _write_body(block: Block, op: Operator, ops: list[Operator]) -> bool:
    """Append the operators in the body of a composite to a list; see `BodyEmitter.write`."""
    emitter = BodyEmitter(
        op.definition,
        op.inputs,
        op.outputs,
        op.attrs,
        {name: block.var(name).meta for name in op.output_names()},
        find_definition=definition_of,
        find_meta=lambda name: block.var(name).meta,
        free_name=block.program.take_name,
        add=lambda *parts: ops.append(enter_operator(block, *parts)),
    )
    return emitter.write()
