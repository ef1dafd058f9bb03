"""Watches a worker, and reports how the worker ended and during which case."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from worker import PROGRESS, Job

HANG_S = 10.0
"""The time limit of a case, in processor time of its process; a case that only waits gets nine
times as much."""

_POLL_S = 0.1
_START_S = 120.0
_WORKER = Path(__file__).parent / "worker.py"
_TICKS = os.sysconf("SC_CLK_TCK")


class Ending(NamedTuple):
    """How a worker ended.

    Attributes
    ----------
    done : int
        The number of completed cases.
    index : int
        The case that ended the worker, or -1.
    reason, text : str
        The fault, or an empty string, and the report of the worker.
    """

    done: int
    index: int
    reason: str = ""
    text: str = ""


def watch_worker(job: Job, python: str, environ: dict[str, str], hang_s: float = HANG_S) -> Ending:
    """Run a job in a child process and return how it ended.

    Parameters
    ----------
    job : Job
        The command to run; its progress file is created here.
    python, environ : str, dict of str to str
        The child's interpreter and environment.
    hang_s : float
        The time limit of a case.
    """
    progress = Path(job.progress)
    progress.write_bytes(PROGRESS.pack(-1, 0, 0.0))
    with tempfile.TemporaryFile() as errors:
        command = [python, str(_WORKER), "run", job.to_json()]
        child = subprocess.Popen(command, env=environ, stdout=errors, stderr=errors)
        try:
            hung = _wait(child, progress, hang_s)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        errors.seek(0)
        text = errors.read()[-8000:].decode("utf-8", "replace")
    index, done, _ = PROGRESS.unpack(progress.read_bytes())
    if hung:
        return Ending(done, index, f"a case took more than {hang_s:g} seconds", text)
    if child.returncode and (child.returncode == 1 or index < 0):
        raise RuntimeError(f"{job.target}: the worker {_describe(child.returncode)}:\n{text}")
    if child.returncode:
        return Ending(done, index, _describe(child.returncode), text)
    return Ending(done, -1)


def _describe(code: int) -> str:
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"ended with status {code}"


def _wait(child: subprocess.Popen[bytes], progress: Path, hang_s: float) -> bool:
    """Wait for a child to exit; if a case hangs, make it print its stacks and return True."""
    case, began_s, began_cpu_s = -2, 0.0, 0.0
    while True:
        try:
            child.wait(_POLL_S)
            return False
        except subprocess.TimeoutExpired:
            pass
        index, _, _ = PROGRESS.unpack(progress.read_bytes())
        now, cpu = time.monotonic(), _cpu_s(child.pid)
        if index != case:
            case, began_s, began_cpu_s = index, now, cpu
            continue
        limit = hang_s if index >= 0 else max(_START_S, 12 * hang_s)
        if cpu - began_cpu_s > limit or now - began_s > 9 * limit:
            child.send_signal(signal.SIGABRT)  # faulthandler prints the stack of every thread
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(5)
            return True


def _cpu_s(pid: int) -> float:
    """Return the processor time of all threads of a process, or 0 if the process has exited."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
