"""Groups of processes, and the engine that connects them."""

from __future__ import annotations

from opwright_dist.groups.engine import ENGINES, Engine, Rendezvous, SingleProcess
from opwright_dist.groups.world import Group, World, current_world, get_engine, set_world

__all__ = [
    "ENGINES",
    "Engine",
    "Group",
    "Rendezvous",
    "SingleProcess",
    "World",
    "current_world",
    "get_engine",
    "set_world",
]
