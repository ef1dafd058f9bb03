"""Checks a distribution: every rule on everything that it provides."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol

from opwright import Context, context_guard, current_context
from opwright.errors import CommandError, OperatorNotFoundError, OpwrightError
from opwright.op import check_dtype
from opwright_kit.testing.check.provided import provided_rules
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.notes import Note
from opwright_kit.testing.results.scorecard import (
    FAILED,
    PASSED,
    SKIPPED,
    Finding,
    Result,
    Scorecard,
    Skipped,
)
from opwright_kit.testing.results.subjects import (
    KernelSubject,
    OperatorSubject,
    PackageSubject,
    Subject,
    find_subjects,
    select_subjects,
)
from opwright_kit.testing.rules import Rule, select_rules
from opwright_kit.testing.samples.draw import cases
from opwright_kit.testing.samples.samplers import GROUP, SamplerError, load_samplers

_OWN: Final = "opwright_kit."

_MAX_FINDINGS: Final = 5
"""Maximum number of findings of one rule on one subject; more would only repeat these."""


class PackageCheck:
    """A check of one distribution, rule by rule.

    Parameters
    ----------
    distribution : str
        The name of the distribution, as pip knows it.
    rules : iterable of str
        Names of the only rules to check; all if none is given.
    subject : str, optional
        The only operator or kernel to check, or an operator type with all its kernels.
    seed : int
        The seed of the samples.
    sample : int, optional
        Number of the only sample.
    dtype : str, optional
        The only dispatch dtype.
    context : Context, optional
        Where the distribution is registered; default: the current one.
    notes : callable, optional
        Receives a note before each action.

    Attributes
    ----------
    subjects : list of str
        Names of the package itself, its operators and its kernels.
    planned : list of (str, str)
        Names of subject and rule, in the order of the check.
    card : Scorecard
        The results so far.

    Raises
    ------
    CommandError, DtypeError
        For an unknown distribution, rule, subject or dtype; lists the existing names.
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
        notes: Callable[[Note], object] | None = None,
    ) -> None:
        self._context = current_context() if context is None else context
        if dtype is not None:
            check_dtype(dtype, "check")
        provided = provided_rules(self._context)
        self._rules = {rule.name: rule for rule in select_rules(tuple(rules), provided)}
        package, subjects = find_subjects(distribution, self._context)
        if subject is not None:
            subjects = select_subjects(package, subjects, subject)
        if sample is not None:
            _check_number(sample, subjects, seed)
        self._subjects = {item.name: item for item in subjects}
        samplers = load_samplers()
        _check_samplers([*samplers], package, self._context)
        self._check = CheckContext(self._context, seed, sample, dtype, samplers, notes)
        self._not_loaded: set[str] = set()
        self.card = Scorecard(package.name, package.version, seed)

    @property
    def subjects(self) -> list[str]:  # noqa: D102 - described in the class
        return list(self._subjects)

    @property
    def planned(self) -> list[tuple[str, str]]:  # noqa: D102 - described in the class
        return [(name, rule) for name in self._subjects for rule in self.rules_about(name)]

    def rules_about(self, subject: str) -> list[str]:
        """Load a subject, and return the names of the rules that apply to it."""
        item = self._subjects[subject]
        self._check.note(f"loading {subject}")
        return [name for name, rule in self._rules.items() if rule.asks(item)]

    def rules_by_kind(self, subject: str) -> list[str]:
        """Return the names of the rules that may apply to this kind of subject."""
        item = self._subjects[subject]
        return [name for name, rule in self._rules.items() if isinstance(item, rule.subject)]

    def apply(self, subject: str, rule: str) -> Result:
        """Check one rule, add the result to the scorecard and return it."""
        result = self.check_rule(subject, rule)
        self.card.add(result)
        return result

    def check_rule(self, subject: str, rule: str) -> Result:
        """Check one rule and return the result."""
        self._check.note(f"the rule {rule}")
        if subject in self._not_loaded:
            return Result(subject, rule, SKIPPED, "its operator cannot be loaded, reported once")
        item, chosen = self._subjects[subject], self._rules[rule]
        with context_guard(self._context):
            try:
                getattr(item, "definition", None)
            except OpwrightError as error:
                self._not_loaded.add(subject)
                findings = (_report(error, chosen, item),)
                return Result(subject, rule, FAILED, findings=findings)
            return _apply(chosen, item, self._check)


def _check_number(sample: int, subjects: list[Subject], seed: int) -> None:
    """Raise if no subject has a sample with this index."""
    counts = []
    for item in subjects:
        if isinstance(item, OperatorSubject | KernelSubject):
            with suppress(OpwrightError):  # a definition that cannot be loaded is a finding
                counts.append(sum(1 for _ in cases(item.definition, seed)))
    if sample >= max(counts, default=sample + 1):
        raise CommandError(
            f"check: the number of a sample must be in [0, {max(counts)}) for this package, "
            f"got {sample}"
        )


def _check_samplers(names: Iterable[str], package: PackageSubject, context: Context) -> None:
    """Raise if a sampler names an operator of these plugins that no plugin provides."""
    plugins = {record.package.plugin for record in package.records}
    for name in names:
        if name.rpartition(".")[0] in plugins:
            try:
                context.ops.package_of(name)
            except OperatorNotFoundError as error:
                raise CommandError(
                    f"check: {GROUP} of {package.name} must name its operators, got {error}"
                ) from None


class Check(Protocol):
    """A check, in this process or in another process."""

    card: Scorecard

    @property
    def planned(self) -> list[tuple[str, str]]:
        """Pairs of subject name and rule name, in order."""

    def apply(self, subject: str, rule: str) -> Result:
        """Check one rule, add the result to the scorecard and return it."""


def run_check(check: Check, progress: Callable[[Result], None] | None = None) -> Scorecard:
    """Apply every rule to every subject as planned, and return the scorecard.

    Parameters
    ----------
    check : PackageCheck or IsolatedCheck
    progress : callable, optional
        Called with each result as soon as it is known.
    """
    for subject, rule in check.planned:
        result = check.apply(subject, rule)
        if progress is not None:
            progress(result)
    return check.card


def check_package(
    distribution: str, *, progress: Callable[[Result], None] | None = None, **options: Any
) -> Scorecard:
    """Check everything that a distribution provides, in this process; return the scorecard.

    A crash of a kernel ends this process, too; `IsolatedCheck` survives it.

    Parameters
    ----------
    distribution : str
        The name of the distribution, as pip knows it.
    progress : callable, optional
        Called with each result as soon as it is known.
    **options
        Restrictions of the check: see `PackageCheck`, also for errors.
    """
    return run_check(PackageCheck(distribution, **options), progress)


def _report(error: Exception, rule: Rule, subject: Subject) -> Finding:
    """Return the finding of an error that no rule expects, with the lines that raised it."""
    text = f"the rule could not be checked: {type(error).__name__}: {error}"
    cause: BaseException = error
    if isinstance(error, SamplerError) and error.__cause__ is not None:
        text, cause = str(error), error.__cause__
    lines = traceback.format_exception(cause.with_traceback(_skip_own(cause.__traceback__)))
    message = f"{subject.name}: {' '.join(text.split())}"
    return Finding(rule.name, subject.name, message, traceback="".join(lines).rstrip())


def _skip_own(place: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the kit's first calls; unchanged if it has no other calls."""
    first = place
    while place is not None and place.tb_frame.f_globals.get("__name__", "").startswith(_OWN):
        place = place.tb_next
    return place or first


def _apply(rule: Rule, subject: Subject, check: CheckContext) -> Result:
    """Return the result of a rule for a subject; an exception is a finding."""
    findings: list[Finding] = []
    reason = ""
    start = time.perf_counter()
    try:
        for finding in rule.check(subject, check):
            findings.append(finding)
            if len(findings) == _MAX_FINDINGS:
                break
    except Skipped as skipped:
        reason = str(skipped)
    except Exception as error:  # noqa: BLE001 - a plugin's; its other parts are checked
        findings.append(_report(error, rule, subject))
    state = FAILED if findings else SKIPPED if reason else PASSED
    seconds = time.perf_counter() - start
    return Result(subject.name, rule.name, state, reason, tuple(findings), seconds)
