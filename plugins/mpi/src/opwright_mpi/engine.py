"""The engine that connects processes started by mpiexec, srun or ``opwright-mpi run``."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from opwright.commands import end_with_parent
from opwright_dist import DistError, Engine, ScriptEnd
from opwright_mpi.library import LIBRARY_VARIABLE, find_library, find_own, unlink_shared_memory
from opwright_mpi.pmi import (
    LAUNCHER_VARIABLE,
    RANK_VARIABLE,
    RANKS_VARIABLE,
    PmiServer,
    prepare_connection,
)

_LAUNCHED: Final = (
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    RANK_VARIABLE,
)
"""Environment variables set by launchers."""

_TEXT_BYTES: Final = 16_384
_GOODBYE_NAP_S: Final = 0.001
_FORWARD_S: Final = 0.2
"""Seconds for mpiexec to forward the last lines, which it drops when MPI is aborted."""


class MpiEngine(Engine):
    """Connects the processes with MPI; at most one instance per process.

    If a process exits with an exception, the other processes are terminated. A process that exits
    normally waits until the other processes exit.

    Raises
    ------
    DistError
        If no MPI library is found or it cannot start; the message contains the solution.
    """

    name = "mpi"

    def __init__(self) -> None:
        path = find_library()
        self._own = ctypes.CDLL(find_own())
        self._own.opwright_mpi_set_deadline.argtypes = [ctypes.c_double]
        self._deadline_s = 60.0
        self._has_launcher = os.environ.get(LAUNCHER_VARIABLE) == str(os.getppid())
        if self._has_launcher:
            end_with_parent(os.getppid())
        prepare_connection(os.environ)
        self._call("connect", path.encode())
        unlink_shared_memory()
        self._library = ctypes.CDLL(path)
        self._check_size(path)
        self._sizes = {"world": self.size}
        self._script = ScriptEnd(self._end)

    @classmethod
    def was_launched(cls) -> bool:
        """Return whether an MPI launcher started this process."""
        return any(name in os.environ for name in _LAUNCHED)

    @classmethod
    def open_rendezvous(cls, nodes: Sequence[int], address: str) -> PmiServer:
        """Open a PMI server, the rendezvous of the processes."""
        return PmiServer(nodes, address)

    @property
    def rank(self) -> int:
        """The rank of this process, from 0."""
        return int(self._own.opwright_mpi_rank())

    @property
    def size(self) -> int:
        """The number of processes."""
        return int(self._own.opwright_mpi_size())

    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Connect the processes of a new group."""
        numbers = (ctypes.c_int * len(ranks))(*ranks)
        self._call("add_group", name.encode(), numbers, len(ranks))
        self._sizes[name] = len(ranks)

    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return the data of each process of a group, in rank order."""
        n = self._sizes[group]
        lengths = self._gather(len(data).to_bytes(8, "little"), 8, group, n)
        sizes = [int.from_bytes(length, "little") for length in lengths]
        longest = max(sizes)
        parts = self._gather(data.ljust(longest, b"\0"), longest, group, n)
        return [part[:size] for part, size in zip(parts, sizes, strict=True)]

    def set_deadline(self, seconds: float) -> None:
        """Set the maximum time that a collective waits for another process."""
        self._deadline_s = seconds
        self._own.opwright_mpi_set_deadline(seconds)

    def describe(self) -> str:
        """Return the name and version of the library, from the first line of its description."""
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._own.opwright_mpi_describe(text, ctypes.c_int64(_TEXT_BYTES))
        return text.value.decode(errors="replace").partition("\n")[0]

    def _check_size(self, path: str) -> None:
        """Raise if each process is alone because its library did not detect the launcher."""
        wanted = os.environ.get(RANKS_VARIABLE, str(self.size))
        if wanted != str(self.size):
            raise DistError(
                f"opwright-mpi: the library must connect the {wanted} processes of the "
                f"launcher through PMI, got {self.size} from {path}; start them with the "
                f"mpiexec of this library, or unset {LIBRARY_VARIABLE}"
            )

    def _gather(self, data: bytes, size: int, group: str, n: int) -> list[bytes]:
        every = ctypes.create_string_buffer(max(size * n, 1))
        self._call("gather", group.encode(), data, ctypes.c_int64(size), every)
        return [every.raw[i * size : (i + 1) * size] for i in range(n)]

    def _call(self, name: str, *arguments: Any) -> None:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        function = getattr(self._own, f"opwright_mpi_{name}")
        if function(*arguments, text, ctypes.c_int64(_TEXT_BYTES)) != 0:
            raise DistError(f"opwright-mpi: {text.value.decode(errors='replace')}")

    def _end(self) -> None:
        """Exit with the other processes, or terminate all of them if this process failed."""
        if self._was_finalized():
            return
        if not self._own.opwright_mpi_may_finalize() or self._script.has_failed:
            self._abort("")
            return
        self._own.opwright_mpi_say_goodbye()
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        end = time.monotonic() + self._deadline_s
        while self._own.opwright_mpi_find_remaining(text, ctypes.c_int64(_TEXT_BYTES)):
            if time.monotonic() > end:
                late = text.value.decode()
                self._abort(f"ended, and {late} did not within {self._deadline_s:g} s")
                return
            time.sleep(_GOODBYE_NAP_S)
        self._own.opwright_mpi_finalize()

    def _was_finalized(self) -> bool:
        """Return whether the script itself has finalized MPI."""
        answer = ctypes.c_int(0)
        self._library.MPI_Finalized(ctypes.byref(answer))
        return bool(answer.value)

    def _abort(self, reason: str) -> None:
        if reason or not self._has_launcher:  # otherwise opwright-mpi run reports it
            why = reason or "failed"
            line = f"opwright-mpi: rank {self.rank} {why}; all processes are terminated"
            print(line, file=sys.stderr)  # noqa: T201
        sys.stdout.flush()
        sys.stderr.flush()
        if self._has_launcher:
            os._exit(1)
        time.sleep(_FORWARD_S)
        self._own.opwright_mpi_abort(1)
