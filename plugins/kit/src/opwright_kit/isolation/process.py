"""The process in which the kernels of one plugin run, started at its first request.

It keeps prepared kernels. If it has ended, the next request starts a new one; every request is
complete, so a new process needs no state of the old one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Final, NamedTuple

from opwright import get_num_threads
from opwright.errors import KernelError
from opwright_kit.isolation.memory import SharedMemory

_LAST_WORDS_S: Final = 5.0
"""How long a process that has closed its connection may take to end."""

_START_S: Final = 120.0
"""How long a process may take to import opwright and find its plugins."""

_LOOK_S: Final = 0.25
"""How often to check whether a process that does not answer still runs."""

Slots = tuple[tuple[tuple[tuple[int, ...], str], ...], ...]
"""Shape and dtype of each array of each slot."""

Options = tuple[tuple[str, Any], ...]
"""Name and value of each option that differs from its default."""


class KernelCall(NamedTuple):
    """A kernel, with the shapes, attributes and options that it is prepared for."""

    key: tuple[str, ...]  # its `KernelKey`
    package: tuple[str, ...]  # the `Package` that provides it
    attrs: tuple[tuple[str, Any], ...]
    inputs: Slots
    counts: tuple[int, ...]  # how many arrays each output slot has
    packable: tuple[int, ...]  # flat inputs that the plan never writes
    options: Options
    deterministic: bool


class KernelProcess:
    """A process for the kernels of one plugin; one request at a time, of at most `time_limit_s`.

    The caller holds ``lock`` from writing ``memory`` to reading it.
    """

    def __init__(self, time_limit_s: float) -> None:
        self.lock = threading.Lock()
        self._time_limit_s = time_limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._is_new = False
        self._end: Any = None
        self.memory = SharedMemory()
        self._owner = os.getpid()

    def ask(self, who: str, *request: Any) -> Any:
        """Return the answer to a request; KernelError if the process ends, or takes too long."""
        connection = self._start()
        try:
            if self._is_new:
                self._wait(who, connection, _START_S)
                connection.recv()
                self._is_new = False
            connection.send((get_num_threads(), *request))
            self._wait(who, connection, self._time_limit_s)
            return connection.recv()
        except (EOFError, OSError):
            raise self._ended(who) from None
        except BaseException:  # Ctrl-C: a late answer must not serve the next request
            self.close()
            raise

    def _wait(self, who: str, connection: Connection, limit_s: float) -> None:
        waited_s = 0.0
        while not connection.poll(min(_LOOK_S, limit_s)):
            waited_s += _LOOK_S
            # A child of the process may keep the connection open beyond its end.
            ended = self._process is None or self._process.poll() is not None
            if ended and not connection.poll():
                raise EOFError
            if waited_s >= limit_s:
                self.close()
                raise KernelError(
                    f"{who}: an isolated kernel must return, got no end within {limit_s:g} s; the "
                    "next call starts a new process"
                )

    def _ended(self, who: str) -> KernelError:
        how = "a closed connection"
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                how = _how_it_ended(self._process.wait(_LAST_WORDS_S))
        self.close()
        return KernelError(
            f"{who}: an isolated kernel must not end its process, got {how}; the next call starts "
            "a new one"
        )

    def _start(self) -> Connection:
        if self._owner != os.getpid():  # after a fork: the process belongs to the parent
            self._process = self._connection = None
            self._owner = os.getpid()
            self.memory = SharedMemory()
        if self._connection is None:
            self._connection, theirs = Pipe()
            with theirs:
                self._process = _start_process(theirs.fileno(), self.memory.descriptor)
            self._is_new = True
            self._end = weakref.finalize(
                self, _end_process, self._process, self._connection, self._owner
            )
        return self._connection

    def close(self) -> None:
        """End the process; the next request starts a new one, with new memory."""
        if self._end is not None:
            self._end()
        self._process = self._connection = self._end = None
        self.memory.close()
        self.memory = SharedMemory()


def _end_process(process: subprocess.Popen[bytes], connection: Connection, owner: int) -> None:
    if owner != os.getpid():
        return  # after a fork: the process belongs to the parent
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    connection.close()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"an exit with code {code}"
    return f"the signal {signal.Signals(-code).name} ({signal.strsignal(-code)})"


def _start_process(connection: int, memory: int) -> subprocess.Popen[bytes]:
    """Start the process in its own group, so that Ctrl-C reaches only this one, which ends it."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    command = [sys.executable, "-P", "-m", "opwright_kit.isolation.server"]
    return subprocess.Popen(
        [*command, str(connection), str(memory), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path, "OPWRIGHT_ISOLATE": ""},
        pass_fds=(connection, memory),
        start_new_session=True,
    )
