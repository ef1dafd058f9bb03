"""The rows of a lock's file."""

from __future__ import annotations

from typing import NamedTuple


class LockedKernel(NamedTuple):
    """A kernel: its key, and the distribution and version that provide it."""

    operator: str
    device: str
    dtype: str
    library: str
    package: str
    version: str


class LockedPass(NamedTuple):
    """A pass that rewrites the plan, and the distribution and version that provide it."""

    name: str
    package: str
    version: str
