"""How child processes begin and end: with their parent, or by a crash that was expected."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


# The path comes first: the child must import the same modules as this process.
_BOOT: Final = (
    "import json, sys; order = json.loads(sys.argv[1]); sys.path[:] = order.pop('path'); "
    "from {} import main; main(**order)"
)


def child_command(module: str, **order: Any) -> list[str]:
    """Return the command of a process with this ``sys.path`` that calls ``main(**order)``."""
    words = json.dumps({"path": sys.path, **order})
    return [sys.executable, "-c", _BOOT.format(module), words]


def end_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent ends, for whatever reason."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def end_without_core() -> None:
    """Let an expected crash leave no core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def describe_exit(code: int) -> str:
    """Return how a process ended, by its exit code, or by the signal where that is negative."""
    if code >= 0:
        return f"ended the process with exit code {code}"
    return f"crashed with {signal.Signals(-code).name}"
