"""Tells whether the default Context is unchanged since discovery, as cached plans require."""

from __future__ import annotations

import sys
from typing import Final

from opwright._runtime import Epoch

default_epoch: Final = Epoch()
"""The epoch of the default Context, and of cached plans before that exists."""

_unchanged: Final = Epoch()


def is_unchanged() -> bool:
    """Tell whether the default Context is current, without pins and later registrations."""
    module = sys.modules.get("opwright.context.context")
    is_default = module is None or module.guarded_context.get() is None
    return is_default and default_epoch.now == _unchanged.now
