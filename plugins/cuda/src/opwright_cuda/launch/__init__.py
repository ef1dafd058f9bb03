"""The GPU launches of an operator, which are planned in ``prepare`` and executed in every run."""

from opwright_cuda.launch.arguments import Argument, Pointer, Struct
from opwright_cuda.launch.copying import UNITS
from opwright_cuda.launch.plan import (
    FREE_SHARED_BYTES,
    LAUNCH_NS,
    MAX_GRID,
    MAX_THREADS,
    Grid,
    Kernel,
    LaunchPlan,
    bytes_of,
    count_of,
    fill_zeros,
    refuse_for,
)

__all__ = [
    "FREE_SHARED_BYTES",
    "LAUNCH_NS",
    "MAX_GRID",
    "MAX_THREADS",
    "UNITS",
    "Argument",
    "Grid",
    "Kernel",
    "LaunchPlan",
    "Pointer",
    "Struct",
    "bytes_of",
    "count_of",
    "fill_zeros",
    "refuse_for",
]
