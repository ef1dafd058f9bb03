"""Profiles: the time of each step of a plan, measured in the runtime's own loop."""

from __future__ import annotations

from opwright_kit.profiling.measuring import (
    DEFAULT_RUNS,
    MAX_RUNS,
    profile,
)
from opwright_kit.profiling.report import Profile, ProfileRow

__all__ = [
    "DEFAULT_RUNS",
    "MAX_RUNS",
    "Profile",
    "ProfileRow",
    "profile",
]
