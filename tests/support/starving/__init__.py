"""Makes single allocations fail, in libraries or in Python.

`build_native` and `build_python` each compile the library for one case. A child process whose
allocations must fail creates a `Starving` from this library.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIMIT_S = 300
_FRAME = re.compile(r"^(/\S+)\(", re.MULTILINE)
_BENEATH = re.compile(r"(libc|libgcc_s|libstdc\+\+)\.so|(python|native)_allocations")
_WARNINGS = ("-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")


def build_native(folder: Path) -> Path:
    """Compile the allocation counter for libraries, which must be preloaded."""
    path = folder / "native_allocations.so"
    command = ["g++", "-std=c++17", *_WARNINGS, HERE / "native_allocations.cc", "-o", path]
    subprocess.run(command, check=True)
    return path


def build_python(folder: Path) -> Path:
    """Compile the allocation counter for Python."""
    path = folder / "python_allocations.so"
    include = f"-I{sysconfig.get_path('include')}"
    command = ["gcc", *_WARNINGS, include, HERE / "python_allocations.c", "-o", path]
    subprocess.run(command, check=True)
    return path


class Starving:
    """Counts allocations of this process, and makes one of them fail.

    Parameters
    ----------
    path : Path, optional
        The library for Python allocations. By default, the preloaded library for the allocations of
        libraries.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._library = ctypes.CDLL(None) if path is None else ctypes.PyDLL(str(path))
        self._library.starve_arm.argtypes = [ctypes.c_long]
        self._library.starve_arm.restype = None
        self._library.starve_disarm.restype = ctypes.c_long
        if path is not None:
            self._library.starve_count.restype = None
            self._library.starve_count()

    def count_from(self, least: dict[str, int]) -> None:
        """Count allocations of `least[name]` bytes or more by libraries with `name` in the path."""
        function = self._library.starve_count_from
        function.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]
        function.restype = None
        with open("/proc/self/maps") as file:
            for line in file:
                addresses, rights, *_, path = line.split()
                name = next((name for name in least if name in path), None)
                if "x" in rights and name is not None:
                    begin, _, end = addresses.partition("-")
                    function(int(begin, 16), int(end, 16), least[name])

    def arm(self, number: int) -> None:
        """Make the allocation with this number fail; counting starts now."""
        self._library.starve_arm(number)

    def disarm(self) -> int:
        """Stop counting; return the number of allocations."""
        return int(self._library.starve_disarm())


def write_stacks(path: Path) -> None:
    """Make this process write its stack to stderr when it crashes."""
    library = ctypes.CDLL(str(path))
    library.starve_write_stacks.restype = None
    library.starve_write_stacks()


def run_forked(function: Callable[[], Any]) -> tuple[Any, str]:
    """Call a function in a fork; return its result and "", or the status and stderr of a crash."""
    reader, writer = os.pipe()
    errors = os.memfd_create("stderr")
    pid = os.fork()
    if pid == 0:
        os.dup2(errors, 2)
        signal.alarm(LIMIT_S)
        os.write(writer, json.dumps(function()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        data = answer.read()
    _, status = os.waitpid(pid, 0)
    with os.fdopen(errors, "rb") as file:
        file.seek(0)
        text = file.read().decode()
    return (json.loads(data), "") if status == 0 else (status, text)


def libraries_of(stack: str) -> list[str]:
    """Return the libraries in the stack of a crash, innermost first, except runtime libraries."""
    names = [Path(path).name for path in _FRAME.findall(stack)]
    return [name for name in names if not _BENEATH.match(name)]
