"""Groups of processes, and the engine that connects them."""

from __future__ import annotations

from opwright_dist.groups.engine import ENGINES, Engine, Rendezvous, SingleProcess
from opwright_dist.groups.script_end import ScriptEnd
from opwright_dist.groups.this_process import (
    gather,
    new_group,
    new_groups,
    rank,
    set_deadline,
    size,
)
from opwright_dist.groups.world import Group, World, current_world, get_engine, set_world

__all__ = [
    "ENGINES",
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
]
