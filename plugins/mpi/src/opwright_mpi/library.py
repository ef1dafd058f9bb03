"""Paths of the MPI library and our own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import opwright_mpi
from opwright_dist import DistError
from opwright_dist.libraries import find_in_wheel, find_own_library

LIBRARY_VARIABLE: Final = "OPWRIGHT_MPI_LIBRARY"
"""Path of a library with MPI's standard binary interface, instead of the one in the wheel."""

ABI_NAME: Final = "libmpi_abi.so.1"


def find_own() -> str:
    """Return the path of our library."""
    return str(find_own_library(opwright_mpi, "mpi.so"))


def find_library() -> str:
    """Return the path of the MPI library.

    Raises
    ------
    DistError
        If there is no library, or the process has loaded a different one.
    """
    path = os.environ.get(LIBRARY_VARIABLE) or find_in_wheel("mpich", ABI_NAME)
    if path is None:
        raise DistError(
            f"opwright-mpi: no library with MPI's standard interface was found, got none named "
            f"{ABI_NAME} in the wheel 'mpich'; pip install mpich, or name one by {LIBRARY_VARIABLE}"
        )
    other = _find_other_library(path)
    if other is not None:
        raise DistError(
            f"opwright-mpi: a process can have one MPI library, got {other} in addition to {path}; "
            f"import nothing that loads the former, or set {LIBRARY_VARIABLE} to it if it has "
            "MPI's standard interface"
        )
    return path


def unlink_shared_memory() -> None:
    """Unlink the shared memory of MPICH's processes once all have opened it.

    Otherwise it would remain after a killed process: 3 MB of /dev/shm per run.
    """
    for file in _list_mapped_files():
        if file.parent == Path("/dev/shm") and file.name.startswith("mpich_shm_"):
            file.unlink(missing_ok=True)


def _list_mapped_files() -> set[Path]:
    """Return the files mapped by this process."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    rows = (line.split(maxsplit=5) for line in maps.splitlines())
    return {Path(row[5]) for row in rows if len(row) > 5}


def _find_other_library(path: str) -> str | None:
    """Return an MPI library that is loaded in this process from a path other than `path`."""
    own = Path(path).resolve().parent
    for loaded in _list_mapped_files():
        if loaded.name.startswith("libmpi") and ".so" in loaded.name and loaded.parent != own:
            return str(loaded)
    return None
