"""Checks a distribution in a separate process, which a crash of a kernel ends without this one.

One process checks all subjects, one after the other: a new one for each would start Python and
discover plugins every time. It is started, not forked, because a forked child computes with one
thread. Before each sample it writes a note of what it is about to run. If it crashes, or writes no
new note for too long, the last note names the cause, and a new process continues with the next
subject.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from opwright import errors
from opwright.errors import CommandError
from opwright_kit.testing.results.notes import Note, NoteFile
from opwright_kit.testing.results.scorecard import FAILED, SKIPPED, Finding, Result, Scorecard

TIME_LIMIT_S: Final = 60.0
"""For one sample of one rule, which takes milliseconds; enough on a busy machine, too."""

_START_LIMIT_S: Final = 60.0
"""For the process to start and to list the plugins, however little a sample may take."""

_LOOK_S: Final = 0.25
"""How often a process that does not answer is polled."""

_LAST_WORDS_S: Final = 5.0
"""How long a process that has closed its connection may take to end."""


class ProcessEnded(Exception):  # noqa: N818 - an observation, not an error of this module
    """Raised when the checking process has ended, or was killed; its text says how."""


class IsolatedCheck:
    """A check of one distribution in a separate process, with the interface of `PackageCheck`.

    Close it, or use it as a context manager, to end the process and all that it started.

    Parameters
    ----------
    distribution : str
        Its name, as pip knows it.
    time_limit_s : float
        How long one sample of one rule may take.
    seed : int
        Of the samples.
    **options
        Restrictions of the check, as of `PackageCheck`.

    Attributes
    ----------
    planned : list of (str, str)
        Names of subject and rule, in order.
    card : Scorecard
        The results so far.

    Raises
    ------
    CommandError, DtypeError
        For an unknown distribution, rule, subject or dtype; lists those that exist. Also if the
        process ends before it knows them, or the time limit is not more than 0.
    """

    def __init__(
        self,
        distribution: str,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if not time_limit_s > 0:
            raise CommandError(
                f"check: the time limit must be more than 0 seconds, got {time_limit_s:g}"
            )
        self._request = (distribution, {"seed": seed, **options})
        self._time_limit_s = time_limit_s
        self._ended_in: dict[str, str] = {}
        self._worker: Worker | None = None
        try:
            name, version, subjects = self._start().introduction
            self.card = Scorecard(name, version, seed)
            self.planned = [(name, rule) for name in subjects for rule in self._rules_of(name)]
        except BaseException:
            self.close()
            raise

    def _start(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(*self._request, self._time_limit_s)
        return self._worker

    def _rules_of(self, subject: str) -> list[str]:
        """Return the rules for a subject; all of its kind if loading it ends the process."""
        for method in ("rules_about", "rules_by_kind"):
            try:
                rules: list[str] = self._start().ask(method, subject)
            except ProcessEnded:
                self.close()
            else:
                return rules
        return []

    def apply(self, subject: str, rule: str) -> Result:
        """Check one rule, add the result to the scorecard and return it."""
        result = self._apply(subject, rule)
        self.card.add(result)
        return result

    def _apply(self, subject: str, rule: str) -> Result:
        if subject in self._ended_in:
            reason = f"the rule {self._ended_in[subject]!r} ended its process"
            return Result(subject, rule, SKIPPED, reason)
        start = time.perf_counter()
        worker = self._start()
        try:
            result: Result = worker.ask("check_rule", subject, rule)
        except ProcessEnded as end:
            note = worker.note
            self.close()
            self._ended_in[subject] = rule
            text = f"{subject}: every run must return, got {end}{_where(note)}"
            finding = Finding(rule, subject, text, note.sample, note.number, note.dtype)
            seconds = time.perf_counter() - start
            return Result(subject, rule, FAILED, "", (finding,), seconds)
        return result

    def close(self) -> None:
        """End the process; the next call starts another one."""
        if self._worker is not None:
            self._worker.close()
        self._worker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _where(note: Note) -> str:
    return f" in {note.what}; to see where, run it with --in-process in a debugger"


class Worker:
    """The worker process, and the connection to it.

    Parameters
    ----------
    distribution : str
    options : dict
        Of `PackageCheck`.
    time_limit_s : float

    Attributes
    ----------
    introduction : (str, str, list of str)
        Name and version of the distribution, and the names of its subjects.

    Raises
    ------
    OpwrightError
        What `PackageCheck` raises.
    """

    def __init__(self, distribution: str, options: dict[str, Any], time_limit_s: float) -> None:
        self._time_limit_s = time_limit_s
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._notes = NoteFile(self._file.fileno())
        self._connection, theirs = Pipe()
        with theirs:
            self._process = _start_process(theirs, self._file.fileno())
        self._connection.send((distribution, options))
        try:
            limit_s = max(time_limit_s, _START_LIMIT_S)
            self.introduction: tuple[str, str, list[str]] = self._receive(limit_s)
        except ProcessEnded as end:
            self.close()
            raise CommandError(
                f"check: the plugins must load, got {end} while they were listed; see: "
                "opwright plugins"
            ) from end
        except BaseException:
            self.close()
            raise

    @property
    def note(self) -> Note:
        """What the process last reported that it would run."""
        return self._notes.read()

    def ask(self, method: str, *arguments: str) -> Any:
        """Return what a method of `PackageCheck` returns there.

        Raises
        ------
        ProcessEnded
            If the process ends instead, or is killed because it takes too long.
        """
        try:
            self._connection.send((method, *arguments))
        except OSError:
            raise ProcessEnded(self._how_it_ended()) from None
        return self._receive(self._time_limit_s)

    def _receive(self, limit_s: float) -> Any:
        self._wait(limit_s)
        try:
            failure, value = self._connection.recv()
        except (EOFError, OSError):
            raise ProcessEnded(self._how_it_ended()) from None
        if failure is not None:
            raise getattr(errors, failure)(value)
        return value

    def _wait(self, limit_s: float) -> None:
        """Wait for an answer, or for the end of the connection, as long as there are new notes."""
        count, since = self._notes.count(), time.monotonic()
        while not self._connection.poll(min(_LOOK_S, limit_s)):
            # A child of the process may keep the connection open beyond its end.
            if self._process.poll() is not None and not self._connection.poll():
                raise ProcessEnded(self._how_it_ended())
            latest, now = self._notes.count(), time.monotonic()
            if latest != count:
                count, since = latest, now
            elif now - since > limit_s:
                self._kill()
                raise ProcessEnded(f"no end within {limit_s:g} s")

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            return "a closed connection"
        if code >= 0:
            return f"an exit of the process with code {code}"
        number = -code
        return f"the signal {signal.Signals(number).name} ({signal.strsignal(number)})"

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the process, and all that it started."""
        self._kill()
        self._connection.close()
        self._file.close()


def _start_process(theirs: Connection, notes: int) -> subprocess.Popen[bytes]:
    """Start the process in its own group: Ctrl-C reaches this process alone, which ends both."""
    path = [entry or str(Path.cwd()) for entry in sys.path]
    files = (theirs.fileno(), notes)
    command = [sys.executable, "-P", "-m", "opwright_kit.testing.check.worker"]
    return subprocess.Popen(
        [*command, *map(str, files), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=2,  # what plugins print must not mix with the report
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        pass_fds=files,
        start_new_session=True,
    )
