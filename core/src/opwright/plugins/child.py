"""What a child process that answers requests needs: it ends with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_PR_SET_PDEATHSIG: Final = 1


def end_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent ends, for whatever reason."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def serve_requests(connection: Connection, answer: Callable[..., Any]) -> None:
    """Send ``answer(*request)`` for every request, until the other side closes the connection."""
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        connection.send(answer(*request))
