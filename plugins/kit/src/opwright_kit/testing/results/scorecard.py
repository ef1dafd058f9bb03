"""The results of a check, one for each subject and rule, as data and as text."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"


class Skipped(Exception):  # noqa: N818 - control flow of a rule, not an error
    """Raised by a rule that has nothing to check on a subject; the message is the reason."""


class Finding(NamedTuple):
    """One violation of a rule.

    Attributes
    ----------
    rule : str
        Name of the rule: ``"guard-bytes"``.
    subject : str
        The package, operator or kernel: ``"acme.swish[cpu, acme]"``.
    message : str
        The fault and its fix, in one line.
    sample : str
        The failing sample, as `Sample.describe` returns it; empty if none is needed.
    number : int
        Its number, which draws it again; -1 if there is no sample.
    dtype : str
        The dispatch dtype for which it was drawn.
    traceback : str
        Where a function of the plugin raised an error that no rule expects; lines, or empty.
    """

    rule: str
    subject: str
    message: str
    sample: str = ""
    number: int = -1
    dtype: str = ""
    traceback: str = ""


@dataclass(frozen=True)
class Result:
    """The outcome of one rule for one subject.

    Attributes
    ----------
    subject, rule : str
    state : str
        ``"passed"``, ``"failed"`` or ``"skipped"``.
    reason : str
        Why it was skipped.
    findings : tuple of Finding
    seconds : float
        How long the rule took.
    """

    subject: str
    rule: str
    state: str
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0


@dataclass
class Scorecard:
    """The results of one check.

    Attributes
    ----------
    distribution, version : str
        The checked distribution.
    seed : int
        The seed of the samples.
    results : list of Result
        In the order of the check.
    """

    distribution: str
    version: str
    seed: int
    results: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Add one result."""
        self.results.append(result)

    @property
    def findings(self) -> list[Finding]:
        """All findings, in order."""
        return [finding for result in self.results for finding in result.findings]

    @property
    def ok(self) -> bool:
        """Whether no rule failed."""
        return not any(result.state == FAILED for result in self.results)

    def counts(self) -> Counter[str]:
        """Return the numbers of passed, failed and skipped results."""
        return Counter(result.state for result in self.results)

    def subjects(self) -> list[str]:
        """Return the names of the checked subjects, in order."""
        return list(dict.fromkeys(result.subject for result in self.results))

    def repeat(self, finding: Finding) -> str:
        """Return the command that reproduces one finding."""
        words = ["opwright check", self.distribution, f"--rule {finding.rule}"]
        if finding.subject != self.distribution:
            words.append(f"--subject {shlex.quote(finding.subject)}")
        if finding.number >= 0:
            words += [f"--dtype {finding.dtype}"] if finding.dtype else []
            words += [f"--seed {self.seed}", f"--sample {finding.number}"]
        return " ".join(words)

    def format_findings(self, findings: Iterable[Finding]) -> str:
        """Return findings as text, each with its sample and the command that reproduces it."""
        lines = []
        for finding in findings:
            lines.append(f"{finding.rule}: {finding.message}")
            if finding.sample:
                lines.append(f"  sample: {finding.sample}")
            lines += [f"  {line}" for line in finding.traceback.splitlines()]
            lines += [f"  to reproduce it: {self.repeat(finding)}", ""]
        return "\n".join(lines[:-1])

    def to_json(self) -> dict[str, Any]:
        """Return the scorecard as plain data."""
        return {
            "distribution": self.distribution,
            "version": self.version,
            "seed": self.seed,
            "ok": self.ok,
            "counts": {state: self.counts()[state] for state in (PASSED, FAILED, SKIPPED)},
            "results": [
                {
                    "subject": result.subject,
                    "rule": result.rule,
                    "state": result.state,
                    "reason": result.reason,
                    "seconds": round(result.seconds, 4),
                    "findings": [
                        {**finding._asdict(), "repeat": self.repeat(finding)}
                        for finding in result.findings
                    ],
                }
                for result in self.results
            ],
        }
