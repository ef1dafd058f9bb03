"""Memory copies by a kernel, since the driver's copy nodes are a third slower in graphs."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from opwright_cuda.dtypes import BITS
from opwright_cuda.launch.arguments import Argument, Pointer
from opwright_cuda.source import Source, own_source

UNITS: Final = {**BITS, 16: "Vector<uint64_t, 2>"}
"""The type of a moved unit, by its size in bytes."""

THREADS: Final = 256
"""Number of threads in a block."""

UNITS_AT_ONCE: Final = 4
"""Number of units that a thread reads before it writes, for long copies."""

MANY_UNITS: Final = 2**20
"""Number of threads, with `UNITS_AT_ONCE` units each, that keep any GPU busy."""


class Copying(NamedTuple):
    """Arguments of `LaunchPlan.launch` for a memory copy."""

    source: Source
    expression: str
    grid: int
    block: int
    arguments: list[Argument]


def describe_copy(out: Pointer, x: Pointer, n_bytes: int) -> Copying:
    """Return the launch that copies `n_bytes`.

    Parameters
    ----------
    out, x : Pointer
        Destination and source, in tensors aligned for any unit.
    n_bytes : int
        At least 1.
    """
    unit = math.gcd(16, out.offset, x.offset)
    n_units = n_bytes // unit
    each = UNITS_AT_ONCE if n_units >= MANY_UNITS else 1
    grid = max(-(-n_units // (THREADS * each)), 1)
    arguments: list[Argument] = [out, x, np.int64(n_bytes)]
    return Copying(
        own_source("move.cu"), f"copy_memory<{UNITS[unit]}, {each}>", grid, THREADS, arguments
    )
