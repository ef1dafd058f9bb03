"""Gathers partitioned variables for saving, and splits them after loading.

Programs mark such variables as input `parts` of ``dist.divided``; loaded programs keep the mark.
Optimizer states are partitioned like their parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.op import format_shape, shapes_match
from opwright_dist.errors import DistError
from opwright_dist.groups.world import Group, current_world
from opwright_dist.names import TABLE

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

_OF_GRADIENTS: Final = frozenset({"add_n", "clip", "scale"})
"""Operators allowed between a stored gradient, such as a sum over steps, and an update."""

_DIVIDED: Final = "dist.divided"
_CHUNK_BYTES: Final = 16 << 20
"""Maximum bytes that each process contributes to one gather."""


class Division(NamedTuple):
    """How a variable is partitioned.

    Attributes
    ----------
    axis : int
        The partitioned axis.
    group : str
        The processes that own the parts, in rank order.
    layout : str
        ``"blocks"``: consecutive parts of equal length. ``"table"``: a table with row 0 on every
        process and the other rows distributed cyclically, padded with zero rows.
    size : int
        The length of the complete axis; 0 if it is the sum over all parts.
    losses : str
        ``"each"``: each process of the group has its own loss; ``"one"``: all processes compute the
        same loss.
    """

    axis: int
    group: str
    layout: str
    size: int
    losses: str = "each"

    def whole_shape(self, shape: Shape) -> Shape:
        """Return the shape of the complete array, given the shape of a part."""
        length = self.size or shape[self.axis] * self._members().size
        return (*shape[: self.axis], max(length, -1), *shape[self.axis + 1 :])

    def take(self, whole: Array) -> Array:
        """Return the part of the array that belongs to this process."""
        members = self._members()
        if self.layout != TABLE:
            return np.split(whole, members.size, self.axis)[members.rank]
        own = whole[1 + members.rank :: members.size]
        length = 1 + -(-(len(whole) - 1) // members.size)
        part = np.zeros((length, *whole.shape[1:]), whole.dtype)
        part[0] = whole[0]
        part[1 : 1 + len(own)] = own
        return part

    def join(self, held: Any) -> Array | None:
        """Return the complete array in the first process of the group, and None in other processes.

        All processes of the group must call this method.

        Parameters
        ----------
        held : ScopeVariable
            The part of this process.
        """
        members = self._members()
        part = held.numpy()
        own = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        is_root = members.rank == 0
        rows = np.empty((members.size, own.size) if is_root else (0, 0), np.uint8)
        for begin in range(0, own.size, _CHUNK_BYTES):
            piece = slice(begin, begin + _CHUNK_BYTES)
            pieces = current_world().engine.gather(own[piece].tobytes(), self.group)
            for row, data in zip(rows, pieces, strict=False):  # only the root has rows
                row[piece] = np.frombuffer(data, np.uint8)
        if not is_root:
            return None
        return self._order(rows.view(part.dtype).reshape(members.size, *part.shape))

    def is_alike(self, group: str) -> bool:
        """Return whether all processes of a group have the same part."""
        ranks = current_world().group(group).ranks
        numbers = {self._members().find_number(rank) for rank in ranks}
        return len(numbers) == 1 and None not in numbers

    def _order(self, parts: Array) -> Array:
        if self.layout != TABLE:
            return np.concatenate(list(parts), self.axis)
        whole = np.empty((self.size, *parts.shape[2:]), parts.dtype)
        whole[0] = parts[0, 0]
        for rank, part in enumerate(parts):
            own = whole[1 + rank :: len(parts)]
            own[...] = part[1 : 1 + len(own)]
        return whole

    def _members(self) -> Group:
        return current_world().group(self.group)


Divisions = dict[str, Division]


def find_divisions(program: ow.Program) -> Divisions:
    """Return the partitioned variables of a program by name.

    Parameters
    ----------
    program : Program
        The main program or a loaded program.
    """
    block = program.global_block()
    divisions: Divisions = {}
    for op in block.ops:
        if op.type == _DIVIDED:
            divisions.update(_read(op))
    updates = [op for op in block.ops if "param" in op.inputs] if divisions else []
    writers = {name: op for op in block.ops for name in op.output_names()} if updates else {}
    for op in updates:
        _add_states(block, op, writers, divisions)
    return divisions


def _read(op: ow.Operator) -> Iterator[tuple[str, Division]]:
    """Yield the partitions marked by one operator."""
    attrs: Mapping[str, Any] = op.attrs
    for name, axis, size in zip(op.input("parts"), attrs["axes"], attrs["sizes"], strict=True):
        yield name, Division(axis, attrs["group"], attrs["layout"], size, attrs["losses"])


def _add_states(
    block: ow.Block, op: ow.Operator, writers: Mapping[str, ow.Operator], divisions: Divisions
) -> None:
    """Add the states that an update stores for a partitioned parameter."""
    (param,) = op.input("param")
    division = divisions.get(param)
    names = list(op.input_names()) if division else []
    while division and names:
        name = names.pop()
        variable = block.find_var(name)
        if variable is None or variable.shape != block.var(param).shape:
            continue
        if variable.persistable:
            divisions[name] = division
        elif name in writers and writers[name].type in _OF_GRADIENTS:
            names += writers[name].input_names()


def whole_divided(program: ow.Program) -> ow.Program:
    """Return a program with complete variables, or `program` if none is partitioned.

    Parameters
    ----------
    program : Program
        The program, which is not modified.
    """
    divisions = find_divisions(program)
    if not divisions:
        return program
    twin = program.clone()
    for name, division in divisions.items():
        variable = twin.global_block().var(name)
        if variable.shape is not None:
            variable.shape = division.whole_shape(variable.shape)
    return twin


def join_divided(program: ow.Program, scope: ow.Scope) -> ow.Scope:
    """Return a scope whose variables are complete in the first process of each group.

    Every process must call this function. The scope also has all other variables of `scope`.

    Parameters
    ----------
    program : Program
        The main program.
    scope : Scope
        Holds the parts; variables without a value are skipped, consistently on all processes.
    """
    divisions = find_divisions(program)
    joined = scope.new_scope() if divisions else scope
    for name, division in sorted(divisions.items()):
        held = scope.find_var(name)
        if held is not None and held.is_set:
            whole = division.join(held)
            if whole is not None:
                joined.var(name).set(whole)
    return joined


def take_divided(program: ow.Program, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return this process's parts of partitioned variables, given their complete values.

    Parameters
    ----------
    program : Program
        The program that contains the variables.
    values : mapping of str to array
        Complete values by variable name.

    Raises
    ------
    DistError
        If a value does not have the shape of the complete array.
    """
    divisions = find_divisions(program)
    block = program.global_block()
    return {
        name: _take(block.var(name), divisions[name], value) if name in divisions else value
        for name, value in values.items()
    }


def _take(variable: ow.Variable, division: Division, whole: Array) -> Array:
    if variable.shape is not None:
        wanted = division.whole_shape(variable.shape)
        if not shapes_match(wanted, whole.shape):
            raise DistError(
                f"{variable.name!r}: the value must have the complete shape "
                f"{format_shape(wanted)}, since each process of group "
                f"{division.group!r} takes its part of it, got {format_shape(whole.shape)}; "
                "build the same model"
            )
    return division.take(whole)
