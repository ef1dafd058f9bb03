"""Tells whether the default Context is unchanged since discovery, as cached plans require."""

from __future__ import annotations

from typing import Final

from opwright._runtime import Epoch
from opwright.context.guard import guarded_context

default_epoch: Final = Epoch()
"""The epoch of the default Context, and of cached plans before that exists."""

_unchanged: Final = Epoch()


def is_unchanged() -> bool:
    """Tell whether the default Context is current, without pins and later registrations."""
    return guarded_context.get() is None and default_epoch.now == _unchanged.now
