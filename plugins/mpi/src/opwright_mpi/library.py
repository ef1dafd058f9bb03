"""Paths of the MPI library and of the opwright-mpi library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import opwright_mpi
from opwright_dist import DistError
from opwright_dist.libraries import find_in_wheel, find_own_library

LIBRARY_VARIABLE: Final = "OPWRIGHT_MPI_LIBRARY"
"""Variable with the path of a library with the standard MPI ABI that replaces the wheel."""

ABI_NAME: Final = "libmpi_abi.so.1"


def find_own() -> str:
    """Return the path of the opwright-mpi library."""
    return str(find_own_library(opwright_mpi, "mpi.so"))


def find_library() -> str:
    """Return the path of the MPI library.

    Raises
    ------
    DistError
        If no library is found, or the process has loaded a different MPI library.
    """
    path = os.environ.get(LIBRARY_VARIABLE) or find_in_wheel("mpich", ABI_NAME)
    if path is None:
        raise DistError(
            "opwright-mpi: a library with the standard MPI ABI must be installed, got no "
            f"{ABI_NAME} in the wheel 'mpich'; pip install mpich, or set "
            f"{LIBRARY_VARIABLE} to its path"
        )
    other = _find_other_library(path)
    if other is not None:
        raise DistError(
            f"opwright-mpi: a process must have only one MPI library, got {other} in "
            f"addition to {path}; do not import packages that load the other library, or set "
            f"{LIBRARY_VARIABLE} to it if it has the standard MPI ABI"
        )
    return path


def unlink_shared_memory() -> None:
    """Unlink the shared memory of the MPICH processes once all of them have opened it.

    Otherwise a killed process would leave the memory behind, with 3 MB of /dev/shm per run.
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
