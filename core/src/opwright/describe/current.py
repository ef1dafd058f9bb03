"""Which operators there are now: asked by the rooms below the Context, provided from above.

A program needs the definitions of its operators, and the Context that holds them is a room above.
So `opwright` itself, above all rooms, provides a function that finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opwright.registry import OpRegistry

_providers: list[Callable[[], OpRegistry]] = []


def provide_operators(find: Callable[[], OpRegistry]) -> None:
    """Have `current_operators` return what ``find()`` returns."""
    _providers[:] = [find]


def current_operators() -> OpRegistry:
    """Return the operators of the current Context."""
    return _providers[0]()
