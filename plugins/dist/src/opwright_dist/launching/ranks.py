"""Starts the processes of a run, forwards their output, and terminates them together."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import IO, Final, NamedTuple, cast

from opwright import get_num_threads
from opwright_dist.launching.output import Lines
from opwright_dist.rendezvous import Meeting

_LOOK_S: Final = 0.05
_TERMINATE_S: Final = 0.5
"""Grace period in seconds after SIGTERM, which is sent if another process has failed."""

_INTERRUPT_S: Final = 10.0
"""Grace period in seconds after a signal to the launcher or, after Ctrl-C, the first exit."""

_LAST_WORDS_S: Final = 1.0
"""Seconds for which children of an exited process can continue to print."""

_READ_BYTES: Final = 65_536

_THREADS_VARIABLE: Final = "OPWRIGHT_NUM_THREADS"
"""The environment variable with the number of kernel threads."""


class _Stream(NamedTuple):
    lines: Lines
    target: IO[bytes]


class Ending(NamedTuple):
    """The outcome of a run.

    Attributes
    ----------
    status : int
        The exit status of the launcher.
    message : str
        Describes the first process that failed; empty if no process failed.
    """

    status: int
    message: str


class Ranks:
    """The processes of one run, with their output streams.

    Parameters
    ----------
    command : sequence of str
        The command of each process.
    meeting : Meeting
        The rendezvous of the processes; it is closed when the run ends.
    variables : callable
        Returns additional environment variables for a rank.
    goodbye : str
        The last action of a process that exits normally: "it had finalized MPI".
    """

    def __init__(
        self,
        command: Sequence[str],
        meeting: Meeting,
        variables: Callable[[int], Mapping[str, str]],
        goodbye: str,
    ) -> None:
        self._command = command
        self._server = meeting
        self._variables = variables
        self._goodbye = goodbye
        self._selector = selectors.DefaultSelector()
        self._children: list[subprocess.Popen[bytes]] = []
        self._ending = Ending(0, "")
        self._signals: list[int] = []
        self._is_interrupted = False
        self._kill_at = float("inf")

    def interrupt(self, number: int, frame: FrameType | None = None) -> None:
        """Forward a signal to the processes; used as a signal handler."""
        self._signals.append(number)

    def run(self) -> Ending:
        """Start the processes and forward their output until all have exited; return the outcome.

        Raises
        ------
        OSError
            If the machine cannot start all processes; started processes are terminated.
        """
        try:
            for rank in range(self._server.size):
                self._start(rank)
            self._watch()
        finally:
            if self._is_running():
                self._send(signal.SIGKILL)
            self._server.close()
        return self._ending

    def _is_running(self) -> bool:
        return any(child.poll() is None for child in self._children)

    def _watch(self) -> None:
        while self._is_running():
            self._forward(_LOOK_S)
            self._pass_signals_on()
            if not self._ending.message:
                self._look_for_failure()
            if time.monotonic() > self._kill_at:
                self._send(signal.SIGKILL)
        if not self._ending.message:
            self._look_for_failure()
        if self._is_interrupted and not self._ending.message:  # as shells expect
            self._ending = Ending(
                128 + signal.SIGINT, f"terminated by {_name_signal(signal.SIGINT)}"
            )
        end = time.monotonic() + _LAST_WORDS_S
        while self._selector.get_map() and time.monotonic() < end:
            self._forward(_LOOK_S)
        for key in list(self._selector.get_map().values()):
            self._finish(key)

    def _start(self, rank: int) -> None:
        reads_ours = rank == 0 and sys.stdin is not None and not sys.stdin.isatty()
        admission, connection = self._server.admit(rank)
        with connection or contextlib.nullcontext():
            variables = {
                "PYTHONUNBUFFERED": "1",  # a pipe would buffer the output
                _THREADS_VARIABLE: str(max(1, get_num_threads() // self._server.size)),
                **os.environ,
                **admission,
                **self._variables(rank),
            }
            child = subprocess.Popen(
                self._command,
                env=variables,
                stdin=None if reads_ours else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[] if connection is None else [connection.fileno()],
                process_group=0,  # so Ctrl-C reaches only the launcher, which forwards it once
            )
        self._children.append(child)
        for source, target in ((child.stdout, sys.stdout), (child.stderr, sys.stderr)):
            stream = _Stream(Lines(rank), target.buffer)
            self._selector.register(cast(IO[bytes], source), selectors.EVENT_READ, stream)

    def _forward(self, timeout_s: float) -> None:
        """Print new output, after waiting for at most `timeout` seconds."""
        if not self._selector.get_map():
            time.sleep(timeout_s)
        for key, _ in self._selector.select(timeout_s):
            data = os.read(key.fd, _READ_BYTES)
            if data:
                self._print(key.data, key.data.lines.add(data))
            else:
                self._finish(key)

    def _finish(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        self._print(key.data, key.data.lines.end())

    def _print(self, stream: _Stream, lines: bytes) -> None:
        try:
            stream.target.write(lines)
            stream.target.flush()
        except (
            BrokenPipeError
        ):  # the reader has exited, as with `| head`, so this program exits like any other
            self._signals.append(signal.SIGPIPE)
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.target.fileno())

    def _pass_signals_on(self) -> None:
        signals, self._signals = self._signals, []
        for number in signals:
            if self._ending.status:
                self._kill_at = 0.0
                continue
            if number == signal.SIGINT and not self._is_interrupted:
                self._is_interrupted = True  # training scripts exit after saving
                self._send(number)
                continue
            reason = f"terminated by {_name_signal(number)}"
            # Python ignores SIGPIPE.
            sent = signal.SIGTERM if number == signal.SIGPIPE else number
            self._end_all(128 + number, reason, sent, _INTERRUPT_S)

    def _look_for_failure(self) -> None:
        for rank, child in enumerate(self._children):
            code = child.poll()
            fault = None if code is None else self._find_fault(rank, code)
            if code is None or fault is None:
                continue
            if self._is_interrupted:  # all processes were notified, so they can exit by themselves
                reason = f"terminated by {_name_signal(signal.SIGINT)}"
                self._end_all(128 + signal.SIGINT, reason, 0, _INTERRUPT_S)
            else:
                status = code if code > 0 else 128 - code if code < 0 else 1
                self._end_all(status, f"rank {rank} {fault}", signal.SIGTERM, _TERMINATE_S)
            return

    def _find_fault(self, rank: int, code: int) -> str | None:
        """Describe the abnormal exit of a process; return None for a normal exit."""
        if code < 0:
            return f"was terminated by {_name_signal(-code)}"
        if code > 0:
            return f"exited with code {code}"
        if rank in self._server.finalized:
            return None
        if rank in self._server.joined:
            return f"exited with code 0 before {self._goodbye}, as by os._exit"
        if self._server.joined:
            return "exited with code 0 without connecting to the others, which wait for it"
        return None

    def _end_all(self, status: int, reason: str, number: int, patience_s: float) -> None:
        self._ending = Ending(
            status, reason + ("; all processes are terminated" if self._is_running() else "")
        )
        self._kill_at = time.monotonic() + patience_s
        self._send(number)

    def _send(self, number: int) -> None:
        """Send a signal to all processes and their children; 0 sends no signal."""
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a signal without a name, such as a real-time signal
        return f"signal {number}"
