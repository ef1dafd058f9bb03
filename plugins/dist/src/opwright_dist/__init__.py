"""Many processes: collective operators, and data-parallel training with them.

>>> import opwright_dist as dist
>>> dist.rank(), dist.size()
(0, 1)

A program with collectives runs alone as it is. Started by the launcher of an engine, such as
``opwright-mpi run -n 4 train.py``, it runs in many processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opwright_dist._version import __version__
from opwright_dist.errors import DistError
from opwright_dist.groups import (
    Engine,
    Group,
    Rendezvous,
    SingleProcess,
    World,
    current_world,
    get_engine,
    set_world,
)

_HOMES = {
    "broadcast_state": "opwright_dist.training.state",
    "data_parallel": "opwright_dist.training.data_parallel",
    "run_on_root": "opwright_dist.training.root",
    "share_startup": "opwright_dist.training.state",
}

__all__ = [
    "DistError",
    "Engine",
    "Group",
    "Rendezvous",
    "SingleProcess",
    "World",
    "__version__",
    "broadcast_state",
    "current_world",
    "data_parallel",
    "gather",
    "get_engine",
    "new_group",
    "rank",
    "run_on_root",
    "set_deadline",
    "set_world",
    "share_startup",
    "size",
]

if TYPE_CHECKING:
    from opwright_dist.training.data_parallel import data_parallel
    from opwright_dist.training.root import run_on_root
    from opwright_dist.training.state import broadcast_state, share_startup


def rank(group: str = "world") -> int:
    """Return the number of this process in a group, -1 where it does not belong to it."""
    return current_world().group(group).rank


def size(group: str = "world") -> int:
    """Return how many processes a group has."""
    return current_world().group(group).size


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


def gather(data: bytes, group: str = "world") -> list[bytes]:
    """Return what each process of a group gives, in the order of ranks; all of them call it."""
    return current_world().engine.gather(data, group)


def set_deadline(seconds: float) -> None:
    """Say how long a collective may wait for another process: 60 s by default.

    The environment variable ``OPWRIGHT_DIST_DEADLINE`` says it for a whole run.
    """
    current_world().set_deadline(seconds)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'opwright_dist' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
