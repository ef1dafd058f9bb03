"""The section of ``opwright doctor`` about MPI."""

from __future__ import annotations

import ctypes
from typing import Final

from opwright.commands import Examination
from opwright_dist import DistError
from opwright_dist.launching.trial import try_launcher
from opwright_mpi.library import find_library

_MAX_VERSION_BYTES: Final = 8192


def examine() -> Examination:
    """Check the library and its version, and connect two processes."""
    facts = {}
    try:
        path = find_library()
        facts["library"] = f"{_read_version(path)}, {path}"
    except (DistError, OSError, AttributeError) as error:
        return Examination(facts, str(error), "pip install mpich")
    return try_launcher("opwright_mpi.launcher", facts, "pip install --force-reinstall mpich")


def _read_version(path: str) -> str:
    """Return the first line of the library description."""
    text = ctypes.create_string_buffer(_MAX_VERSION_BYTES)
    ctypes.CDLL(path).MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
    first = text.value.decode(errors="replace").partition("\n")[0]
    return " ".join(first.replace(" Version:", "").split())
