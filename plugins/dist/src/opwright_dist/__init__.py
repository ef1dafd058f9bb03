"""Many processes: collective operators, and data-parallel training with them.

>>> import opwright_dist as dist
>>> dist.rank(), dist.size()
(0, 1)

A program with collectives runs alone as it is. Started by the launcher of an engine, such as
``opwright-mpi run -n 4 train.py``, it runs in many processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opwright_dist._version import __version__
from opwright_dist.errors import DistError

_NAMES = {
    "opwright_dist.groups": (
        "Engine",
        "Group",
        "Rendezvous",
        "SingleProcess",
        "World",
        "current_world",
        "gather",
        "get_engine",
        "new_group",
        "rank",
        "set_deadline",
        "set_world",
        "size",
    ),
    "opwright_dist.training.data_parallel": ("data_parallel",),
    "opwright_dist.training.root": ("run_on_root",),
    "opwright_dist.training.state": ("broadcast_state", "share_startup"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

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
    from opwright_dist.groups import (
        Engine,
        Group,
        Rendezvous,
        SingleProcess,
        World,
        current_world,
        gather,
        get_engine,
        new_group,
        rank,
        set_deadline,
        set_world,
        size,
    )
    from opwright_dist.training.data_parallel import data_parallel
    from opwright_dist.training.root import run_on_root
    from opwright_dist.training.state import broadcast_state, share_startup


def __getattr__(name: str) -> Any:
    """Import at first use: finding plugins imports this package."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'opwright_dist' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
