"""Profiles: what each step of a plan takes, measured in the runtime's own loop."""

from __future__ import annotations

from opwright.profiling.measuring import (
    DEFAULT_RUNS,
    MAX_RUNS,
    profile_compiled,
    profile_network,
)
from opwright.profiling.profile import Profile, ProfileRow

__all__ = [
    "DEFAULT_RUNS",
    "MAX_RUNS",
    "Profile",
    "ProfileRow",
    "profile_compiled",
    "profile_network",
]
