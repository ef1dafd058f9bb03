"""How child processes of commands end, in which code of a plugin may crash."""

from __future__ import annotations

import resource
import signal


def end_without_core() -> None:
    """Let an expected crash leave no core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def describe_exit(code: int) -> str:
    """Return how a process ended, by its exit code, or by the signal where that is negative."""
    if code >= 0:
        return f"ended the process with exit code {code}"
    return f"crashed with {signal.Signals(-code).name}"
