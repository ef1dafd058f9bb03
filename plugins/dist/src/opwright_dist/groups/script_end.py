"""Detects the end of a script, so an engine can release or notify the other processes."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from types import TracebackType

from opwright.plugin import suggest_arguments


class ScriptEnd:
    """Calls a function when the script of this process ends, and records whether it raised.

    Parameters
    ----------
    function : callable
        Called when the interpreter exits, but not in a forked child.

    Attributes
    ----------
    has_failed : bool
        Whether an exception ended the script.
    """

    @suggest_arguments
    def __init__(self, function: Callable[[], object]) -> None:
        self.has_failed = False
        self._function = function
        self._pid = os.getpid()
        self._hook_before = sys.excepthook
        sys.excepthook = self._note_failure
        atexit.register(self._end)

    @property
    def is_of_parent(self) -> bool:
        """Return whether the current process is a fork of the process that runs the script."""
        return os.getpid() != self._pid

    def _note_failure(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self.has_failed = True
        self._hook_before(kind, error, trace)

    def _end(self) -> None:
        if not self.is_of_parent:
            self._function()
