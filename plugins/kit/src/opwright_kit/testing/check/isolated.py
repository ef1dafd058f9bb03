"""Checks a distribution in a separate process, so this process survives a crash of a kernel.

One process checks all subjects in turn, because a new process for each would have to start Python
and discover plugins every time. The process is started, not forked, because a forked child computes
with one thread. Before each sample the process writes a note of its next action. If the process
crashes, or does not write a new note in time, the last note names the cause, and a new process
continues with the next subject.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Final, Self

from opwright.commands import Child, ChildEnded, ChildRaised
from opwright.errors import CommandError
from opwright_kit.testing.results.notes import Note
from opwright_kit.testing.results.scorecard import FAILED, SKIPPED, Finding, Result, Scorecard

TIME_LIMIT_S: Final = 60.0
"""The time limit for one sample of one rule. A sample takes milliseconds, so the limit is enough on
a busy machine, too."""

_START_LIMIT_S: Final = 60.0
"""The time to start the process and list the plugins, even with a short limit for samples."""


class IsolatedCheck:
    """A check of one distribution in a separate process, with the interface of `PackageCheck`.

    Close the check, or use it as a context manager, to end the process and all of its children.

    Parameters
    ----------
    distribution : str
        The name of the distribution, as pip knows it.
    time_limit_s : float
        The time limit of one sample of one rule.
    seed : int
        The seed of the samples.
    **options
        Restrictions of the check, as for `PackageCheck`.

    Attributes
    ----------
    planned : list of (str, str)
        Names of subject and rule, in order.
    card : Scorecard
        The results so far.

    Raises
    ------
    CommandError, DtypeError
        For an unknown distribution, rule, subject or dtype; lists the existing names. Also if the
        process ends before it has listed them, or the time limit is not above 0.
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
        self._note = Note()
        self._child: Child | None = None
        try:
            name, version, subjects = self._receive(self._start(), _START_LIMIT_S)
            self.card = Scorecard(name, version, seed)
            self.planned = [(name, rule) for name in subjects for rule in self._rules_of(name)]
        except (ChildEnded, ChildRaised) as end:
            self.close()
            raise CommandError(
                f"check: the plugins must load, got plugins that {end} while they were listed; "
                "see: opwright plugins"
            ) from end
        except BaseException:
            self.close()
            raise

    def _start(self) -> Child:
        """Start the process, which sends name and version of the distribution, and its subjects."""
        self._child = Child("opwright_kit.testing.check.worker:serve_check", *self._request)
        return self._child

    def _ask(self, method: str, *arguments: str) -> Any:
        """Call a method of `PackageCheck` in the process; ChildEnded if that ends the process."""
        child = self._child
        if child is None:
            child = self._start()
            self._receive(child, _START_LIMIT_S)
        child.send((method, *arguments))
        return self._receive(child, self._time_limit_s)

    def _receive(self, child: Child, limit_s: float) -> Any:
        """Return the reply; a note of the next action restarts the time limit."""
        while isinstance(message := child.receive(limit_s), Note):
            self._note = message
        return message

    def _rules_of(self, subject: str) -> list[str]:
        """Return the rules for a subject, or all rules of its kind if loading it fails."""
        for method in ("rules_about", "rules_by_kind"):
            try:
                rules: list[str] = self._ask(method, subject)
            except (ChildEnded, ChildRaised):
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
        try:
            result: Result = self._ask("check_rule", subject, rule)
        except (ChildEnded, ChildRaised) as end:
            self.close()
            note = self._note
            self._ended_in[subject] = rule
            text = f"{subject}: every run must return, got one that {end} in {note.what}"
            text += "; to see where, run it with --in-process in a debugger"
            finding = Finding(rule, subject, text, note.sample, note.number, note.dtype)
            seconds = time.perf_counter() - start
            return Result(subject, rule, FAILED, "", (finding,), seconds)
        return result

    def close(self) -> None:
        """Terminate the process; the next call starts a new process."""
        if self._child is not None:
            self._child.close()
        self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
