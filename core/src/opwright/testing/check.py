"""Checks a distribution: every rule on everything that it brings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from opwright.context import Context, context_guard, current_context
from opwright.dtypes import check_dtype
from opwright.testing.context import CheckContext
from opwright.testing.rules import Rule, select_rules
from opwright.testing.samplers import load_samplers
from opwright.testing.scorecard import FAILED, PASSED, SKIPPED, Finding, Result, Scorecard, Skipped
from opwright.testing.subjects import Subject, find_subjects, select_subjects

_MAX_FINDINGS: Final = 5
"""Of one rule on one subject: more say the same again."""


class PackageCheck:
    """A check of one distribution, rule by rule.

    Parameters
    ----------
    distribution : str
        As pip knows it.
    rules : iterable of str
        Names of the only rules to check; all where none is given.
    subject : str, optional
        The only operator or kernel to check, or an operator type with all its kernels.
    seed : int
        Of the samples.
    sample : int, optional
        Number of the only sample.
    dtype : str, optional
        The only dispatch dtype.
    context : Context, optional
        Where the distribution is found; the current one.

    Attributes
    ----------
    planned : list of (subject, Rule)
        What is to be checked, in order.
    card : Scorecard
        What was found so far.

    Raises
    ------
    CommandError, DtypeError
        For an unknown distribution, rule, subject or dtype, with what there is.
    """

    def __init__(
        self,
        distribution: str,
        *,
        rules: Iterable[str] = (),
        subject: str | None = None,
        seed: int = 0,
        sample: int | None = None,
        dtype: str | None = None,
        context: Context | None = None,
    ) -> None:
        self._context = current_context() if context is None else context
        if dtype is not None:
            check_dtype(dtype, "check")
        chosen = select_rules(tuple(rules))
        package, subjects = find_subjects(distribution, self._context)
        if subject is not None:
            subjects = select_subjects(package, subjects, subject)
        self._check = CheckContext(self._context, seed, sample, dtype, load_samplers())
        self.card = Scorecard(package.name, package.version, seed)
        self.planned = [(item, rule) for item in subjects for rule in chosen if rule.asks(item)]

    def apply(self, subject: Subject, rule: Rule) -> Result:
        """Check one rule, enter the result in the scorecard and return it."""
        with context_guard(self._context):
            result = _apply(rule, subject, self._check)
        self.card.add(result)
        return result


def check_package(
    distribution: str, *, progress: Callable[[Result], None] | None = None, **options: Any
) -> Scorecard:
    """Check everything that a distribution brings, and return the scorecard.

    Parameters
    ----------
    distribution : str
        As pip knows it.
    progress : callable, optional
        Told of every result as it comes.
    **options
        What the check is narrowed to: see `PackageCheck`, also for what it raises.
    """
    check = PackageCheck(distribution, **options)
    for subject, rule in check.planned:
        result = check.apply(subject, rule)
        if progress is not None:
            progress(result)
    return check.card


def _apply(rule: Rule, subject: Subject, check: CheckContext) -> Result:
    """Return what a rule says of a subject; whatever is raised on the way is a finding."""
    findings: list[Finding] = []
    reason = ""
    began = time.perf_counter()
    try:
        for finding in rule.check(subject, check):
            findings.append(finding)
            if len(findings) == _MAX_FINDINGS:
                break
    except Skipped as skipped:
        reason = str(skipped)
    except Exception as error:  # noqa: BLE001 - a plugin's; its other parts are checked
        text = " ".join(f"{type(error).__name__}: {error}".split())
        findings.append(Finding(rule.name, subject.name, f"the rule could not be checked: {text}"))
    state = FAILED if findings else SKIPPED if reason else PASSED
    seconds = time.perf_counter() - began
    return Result(subject.name, rule.name, state, reason, tuple(findings), seconds)
