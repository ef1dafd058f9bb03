"""Collective operators, and data-parallel training in several processes.

>>> import opwright_dist as dist
>>> dist.rank(), dist.size()
(0, 1)

A program with collectives also runs in a single process. If an engine's launcher starts the
program, as in ``opwright-mpi run -n 4 train.py``, the program runs in several processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opwright_dist._version import __version__

_NAMES = {
    "opwright_dist.errors": ("DistError",),
    "opwright_dist.groups": (
        "Engine",
        "Group",
        "Rendezvous",
        "ScriptEnd",
        "SingleProcess",
        "World",
        "current_world",
        "gather",
        "get_engine",
        "new_group",
        "new_groups",
        "rank",
        "set_deadline",
        "set_world",
        "size",
    ),
    "opwright_dist.training.data_parallel": ("data_parallel",),
    "opwright_dist.training.root": ("run_on_root",),
    "opwright_dist.training.shards": ("declare_states", "find_shards", "gather_parameters"),
    "opwright_dist.training.state": ("broadcast_state", "share_startup"),
    "opwright_dist.training.whole": ("gather_state", "shard_values", "whole_program"),
}
_LAYERS = "layers"  # a module that needs opwright-nn
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "DistError",
    "Engine",
    "Group",
    "Rendezvous",
    "ScriptEnd",
    "SingleProcess",
    "World",
    "__version__",
    "broadcast_state",
    "current_world",
    "data_parallel",
    "declare_states",
    "find_shards",
    "gather",
    "gather_parameters",
    "gather_state",
    "get_engine",
    "layers",
    "new_group",
    "new_groups",
    "rank",
    "run_on_root",
    "set_deadline",
    "set_world",
    "shard_values",
    "share_startup",
    "size",
    "whole_program",
]

if TYPE_CHECKING:
    from opwright_dist import layers
    from opwright_dist.errors import DistError
    from opwright_dist.groups import (
        Engine,
        Group,
        Rendezvous,
        ScriptEnd,
        SingleProcess,
        World,
        current_world,
        gather,
        get_engine,
        new_group,
        new_groups,
        rank,
        set_deadline,
        set_world,
        size,
    )
    from opwright_dist.training.data_parallel import data_parallel
    from opwright_dist.training.root import run_on_root
    from opwright_dist.training.shards import declare_states, find_shards, gather_parameters
    from opwright_dist.training.state import broadcast_state, share_startup
    from opwright_dist.training.whole import gather_state, shard_values, whole_program


def __getattr__(name: str) -> Any:
    """Import at first use, since plugin discovery imports this package."""
    home = _HOMES.get(name)
    if home is None and name != _LAYERS:
        raise AttributeError(f"module 'opwright_dist' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name) if home else import_module(f"{__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
