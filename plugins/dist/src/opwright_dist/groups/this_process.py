"""What a process asks about itself and its groups."""

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
    """Return the number of this process in a group, -1 where it does not belong to it."""
    return current_world().group(group).rank


@suggest_arguments
def size(group: str = "world") -> int:
    """Return how many processes a group has."""
    return current_world().group(group).size


@suggest_arguments
def new_group(name: str, ranks: Sequence[int]) -> Group:
    """Make a group of some processes; every process of the world calls it alike.

    Parameters
    ----------
    name : str
        New; the attribute ``group`` of collectives.
    ranks : sequence of int
        The members by their numbers in the world, in the order of their numbers in the group.

    Raises
    ------
    DistError
        The name is taken, or the ranks are not different numbers of processes.
    """
    return current_world().new_group(name, ranks)


@suggest_arguments
def new_groups(name: str, parts: Sequence[Sequence[int]]) -> Group:
    """Divide all processes into groups that have one name; every process calls it alike.

    To each process the name stands for the group that it is in, so that all build one program::

        dist.new_groups("tensor", [[0, 1], [2, 3]])  # these share layers
        dist.new_groups("data", [[0, 2], [1, 3]])  # and these average their gradients

    Parameters
    ----------
    name : str
        New; the attribute ``group`` of collectives.
    parts : sequence of sequence of int
        The members of each group by their numbers in the world. Each process is in one of them.

    Returns
    -------
    Group
        That of this process.

    Raises
    ------
    DistError
        The name is taken, or not every process is in one of the groups and in no other.
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
    """Return what each process of a group gives, in the order of ranks; all of them call it.

    Outside of programs, for results such as losses and predictions; within one the operator
    ``dist.all_gather`` joins tensors.

    Parameters
    ----------
    data : bytes, bool, int, float or array
        Of one kind and dtype on all processes. Arrays have any shapes, also unlike ones; NumPy
        scalars and arrays of other libraries in the memory of the host count as arrays.
    group : str
        The processes that give and get.

    Returns
    -------
    list
        One entry for each process: bytes, a number of the same type, or an array of NumPy of its
        own, of shape [] for a scalar.

    Raises
    ------
    AttributeTypeError
        The data is none of these.
    DtypeError
        The array has objects or text.
    DistError
        The group is unknown, the processes give unlike kinds or dtypes, or one did not come.
    """
    from opwright_dist.groups.gathering import pack, unpack  # of NumPy, which a rank needs not

    world = current_world()
    world.group(group, "gather")
    return unpack(world.engine.gather(pack(data), group))


@suggest_arguments
def set_deadline(seconds: float) -> None:
    """Say how long a collective may wait for another process: 60 s by default.

    The environment variable ``OPWRIGHT_DIST_DEADLINE`` says it for a whole run.
    """
    current_world().set_deadline(seconds)
