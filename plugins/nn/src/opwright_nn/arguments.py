"""Reports arguments that a function does not have, with the nearest name that it has."""

from __future__ import annotations

from opwright.plugin import check_arguments
from opwright.plugin import suggest_arguments as suggest

__all__ = ["check_arguments", "suggest"]
