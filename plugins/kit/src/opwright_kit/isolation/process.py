"""The process in which the kernels of one plugin run, started at its first request.

The process caches prepared kernels. If it has ended, the next request starts a new process; every
request is complete, so the new process does not need the state of the old process.
"""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple

from opwright import get_num_threads
from opwright.commands import Child, ChildEnded, ChildRaised
from opwright.errors import KernelError
from opwright_kit.isolation.memory import SharedMemory

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
    """A process for the kernels of one plugin, which handles one request at a time.

    A request may take at most `time_limit_s`. The caller holds ``lock`` from writing ``memory`` to
    reading it.
    """

    def __init__(self, time_limit_s: float) -> None:
        self.lock = threading.Lock()
        self._time_limit_s = time_limit_s
        self._child: Child | None = None
        self.memory = SharedMemory()
        self._owner = os.getpid()

    def ask(self, who: str, *request: Any) -> Any:
        """Return the answer to a request; KernelError if the process ends, or takes too long."""
        if self._owner != os.getpid():  # after a fork: the process belongs to the parent
            self._child, self._owner, self.memory = None, os.getpid(), SharedMemory()
        try:
            if self._child is None:
                memory = self.memory.descriptor
                self._child = Child(
                    "opwright_kit.isolation.server:serve_kernels", memory, files=(memory,)
                )
                self._child.receive()  # the report that it runs
            return self._child.ask((get_num_threads(), *request), self._time_limit_s)
        except (ChildEnded, ChildRaised) as end:
            self.close()
            raise KernelError(
                f"{who}: an isolated kernel must return, got one that {end}; the next call "
                "starts a new process"
            ) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Terminate the process; the next request starts a new process with new memory."""
        if self._child is not None:
            self._child.close()
        self._child = None
        self.memory.close()
        self.memory = SharedMemory()
