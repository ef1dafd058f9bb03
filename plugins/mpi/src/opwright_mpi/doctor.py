"""The section of ``opwright doctor`` about MPI."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from typing import Final

from opwright.commands import Examination
from opwright_dist import DistError
from opwright_mpi.library import find_library

_MAX_VERSION_BYTES: Final = 8192
_SELF_TEST: Final = "opwright_dist.self_test"
_LAUNCH: Final = "import sys; from opwright_mpi.launcher import main; sys.exit(main(sys.argv[1:]))"


def examine() -> Examination:
    """Find the library and its version, and connect two processes."""
    facts = {}
    try:
        path = find_library()
        facts["library"] = f"{_read_version(path)}, {path}"
    except (DistError, OSError, AttributeError) as error:
        return Examination(facts, str(error), "pip install mpich")
    began = time.perf_counter()
    command = [sys.executable, "-c", _LAUNCH, "run", "-n", "2", "-m", _SELF_TEST]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = f"its self-test failed:\n{done.stdout}{done.stderr}"
        return Examination(facts, reason, "pip install --force-reinstall mpich")
    result = done.stdout.splitlines()[0].partition("] ")[2]
    facts["self-test"] = f"{result}, {time.perf_counter() - began:.1f} s"
    return Examination(facts)


def _read_version(path: str) -> str:
    """Return the first line of the library's description."""
    text = ctypes.create_string_buffer(_MAX_VERSION_BYTES)
    ctypes.CDLL(path).MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
    first = text.value.decode(errors="replace").partition("\n")[0]
    return " ".join(first.replace(" Version:", "").split())
