"""The "tape", a device of a compiled library that executes nothing until the host waits for it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import tape_arrays

import opwright as ow

TABLE = """
import opwright.plugin as plugin

LIBRARY = "opwright_acme/libacme.so"

@plugin.hookimpl
def opwright_devices(registry):
    registry.add("tape", LIBRARY)

@plugin.hookimpl
def opwright_kernels(registry):
    for op_type in ("add", "multiply", "negative"):
        registry.add(op_type, device="tape", dtypes=["float32"], kernel=LIBRARY)
"""

X = np.array([1, 2, 3], np.float32)


class Tape:
    """Reads library counters, and injects failures into library functions."""

    def __init__(self, library: Path) -> None:
        self._library = tape_arrays.connect(library)
        self._library.tape_count.restype = ctypes.c_int64

    def count(self, what: str) -> int:
        """Return a counter of the library.

        ``streams``, ``allocations``, ``graphs`` and ``events`` count live objects; ``replays``,
        ``launches``, ``captured`` and ``event waits`` are totals. ``odd addresses`` counts
        misaligned kernel arguments. ``foreign addresses`` counts kernel arguments that are on
        another device. ``largest`` is the size of the largest allocation in bytes.
        """
        counted: int = self._library.tape_count(what.encode())
        assert counted >= 0, what
        return counted

    def fail(self, where: str) -> None:
        """Make a function fail, or throw if " throws" follows its name; "" means no function."""
        self._library.tape_fail(where.encode())


PYTHON_KERNEL = """
    registry.add("relu", device="tape", dtypes=["float32"], kernel="tape_arrays:relu",
                 capturable={capturable})
"""


def table_with_python(capturable: bool = True, arrays: str = "tape_arrays:ARRAYS") -> str:
    """Return the hooks of the tape with a Python kernel for relu; `arrays` can be ""."""
    table = TABLE + PYTHON_KERNEL.format(capturable=capturable)
    given = f', arrays="{arrays}"' if arrays else ""
    return table.replace('"tape", LIBRARY', f'"tape", LIBRARY{given}')


def make_network(*types: str) -> tuple[ow.Network, str]:
    """Return a chain of operators on x, e.g. v1 = v0 + x, and the name of the last result."""
    ops, previous = [], "x"
    for i, op_type in enumerate(types):
        slots = {"x": previous, "out": f"v{i}"}
        if op_type in ("add", "multiply"):
            slots["y"] = "x"
        ops.append(ow.Operator(op_type, **slots))
        previous = f"v{i}"
    return ow.Network(ops), previous
