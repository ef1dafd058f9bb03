"""Functions about this process and its groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from opwright.plugin import suggest_arguments
from opwright_dist.groups.world import Group, current_world

if TYPE_CHECKING:
    import numpy.typing as npt

Bytes = bytes | bytearray | memoryview
Number = TypeVar("Number", bool, int, float)


@suggest_arguments
def rank(group: str = "world") -> int:
    """Return the rank of this process in a group, or -1 if it is not a member."""
    return current_world().group(group).rank


@suggest_arguments
def size(group: str = "world") -> int:
    """Return the number of processes in a group."""
    return current_world().group(group).size


@suggest_arguments
def new_group(name: str, ranks: Sequence[int]) -> Group:
    """Create a group of some processes; every process must call this with the same arguments.

    Parameters
    ----------
    name : str
        A new name, for the attribute ``group`` of collectives.
    ranks : sequence of int
        The members by their ranks in the world, in the order of their ranks in the group.

    Raises
    ------
    DistError
        If the name exists, or the ranks are not distinct ranks of processes.
    """
    return current_world().new_group(name, ranks)


@suggest_arguments
def new_groups(name: str, parts: Sequence[Sequence[int]]) -> Group:
    """Partition all processes into groups that share a name; every process must call this.

    In each process, the name refers to the group that contains the process, so all processes build
    the same program::

        dist.new_groups("tensor", [[0, 1], [2, 3]])  # each group partitions layers
        dist.new_groups("data", [[0, 2], [1, 3]])  # each group averages gradients

    Parameters
    ----------
    name : str
        A new name, for the attribute ``group`` of collectives.
    parts : sequence of sequence of int
        The members of each group by their ranks in the world, the same on all processes. Each
        process is in exactly one group.

    Returns
    -------
    Group
        The group of this process.

    Raises
    ------
    DistError
        If the name exists, or a process is not in exactly one of the groups.
    """
    return current_world().new_groups(name, parts)


@overload
def gather(data: Bytes, group: str = ...) -> list[bytes]: ...
@overload
def gather(data: Number, group: str = ...) -> list[Number]: ...
@overload
def gather(data: Any, group: str = ...) -> list[npt.NDArray[Any]]: ...


@suggest_arguments
def gather(data: Any, group: str = "world") -> list[Any]:
    """Return the data of each process of a group, in rank order; every member must call this.

    Use this function outside programs for results such as losses and predictions. Within a program,
    the operator ``dist.all_gather`` concatenates tensors.

    Parameters
    ----------
    data : bytes, bool, int, float or array
        The kind and dtype must be equal on all processes. Arrays can have different shapes. NumPy
        scalars and host arrays of other libraries count as arrays.
    group : str
        The participating processes.

    Returns
    -------
    list
        One entry per process: bytes, a number of the same type, or a new NumPy array, whose shape
        is [] for a scalar.

    Raises
    ------
    AttributeTypeError
        If the data has an unsupported type.
    DtypeError
        If the array contains objects or strings.
    DistError
        If the group is unknown, the kinds or dtypes differ, or a process is missing.
    """
    from opwright_dist.groups.gathering import pack, unpack  # imports NumPy

    world = current_world()
    world.group(group, "gather")
    return unpack(world.engine.gather(pack(data), group))


@suggest_arguments
def set_deadline(seconds: float) -> None:
    """Set the maximum time that a collective waits for another process; the default is 60 s.

    The environment variable ``OPWRIGHT_DIST_DEADLINE`` sets this time for a whole run.
    """
    current_world().set_deadline(seconds)
