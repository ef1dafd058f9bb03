"""Guard pages: parts of a run's memory that cannot be accessed while its kernel runs."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

from opwright import runtime
from opwright_kit.testing.launch.memory import PAGE_BYTES
from opwright_kit.testing.samples.sample import Array

AVAILABLE: Final = sys.platform == "linux"

_PROT_NONE: Final = 0
_PROT_READ_WRITE: Final = 3


class GuardPages:
    """Closes and opens the guard pages of an arena, in plan steps before and after the kernel.

    Parameters
    ----------
    ranges : sequence of (int, int)
        Start and end of each range in the arena; both are multiples of the page size.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = ranges
        self._closed = threading.local()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def add_step(self, builder: runtime.PlanBuilder, arena: int, *, close: bool) -> None:
        """Add the step that closes or opens the pages."""
        step = runtime.prepare_python(self._close if close else self._open, [0])
        builder.kernel(step, [arena], [0, 1], 0, 0)

    def _close(self, arena: Array) -> None:
        address = arena.ctypes.data
        if address % PAGE_BYTES:
            raise RuntimeError(f"an arena with guard pages must start at a page, got {address:#x}")
        self._closed.address = address
        self._protect(_PROT_NONE)

    def _open(self, arena: Array) -> None:
        self.open()

    def open(self) -> None:
        """Open the pages that this thread has closed; needed if the kernel failed."""
        if getattr(self._closed, "address", None) is not None:
            self._protect(_PROT_READ_WRITE)
            self._closed.address = None

    def _protect(self, access: int) -> None:
        for begin, end in self._ranges:
            address = ctypes.c_void_p(self._closed.address + begin)
            if self._libc.mprotect(address, ctypes.c_size_t(end - begin), access):
                error = os.strerror(ctypes.get_errno())
                raise RuntimeError(f"mprotect must change the access of a guard page, got: {error}")
