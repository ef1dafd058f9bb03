"""Positions are checked before they are used, so no value reaches other memory.

A position may originate from a file, or from another operator. A kernel refuses an index out of
range with an error that names the input, its range and its value; or it computes the same result as
a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry, Refuse
from opwright_kit.testing.launch.kernel_run import KernelRun
from opwright_kit.testing.observation.bad_values import (
    BadValue,
    find_bad_values,
    find_position_slots,
)
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.failures import find_failure, reason_of
from opwright_kit.testing.observation.observation import find_on
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.rules.reference import find_expected, find_fault

RULE = "out-of-range"
SUMMARY = "indices outside of their range are refused, with the range and the value"
SUBJECT = KernelSubject

_NUMBER: Final = re.compile(r"-?\d+")


def concerns(subject: KernelSubject) -> bool:
    """Return whether there is an input that may hold positions."""
    return bool(find_position_slots(subject.definition))


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each value that is accepted, or refused with an unhelpful error."""
    slots = find_position_slots(subject.definition)
    seen: set[tuple[str, str]] = set()
    reports: set[tuple[str, bool, str]] = set()
    for entry, sample in context.launches(subject.entries[:1]):
        if find_failure(entry, sample, context) is not None:
            continue
        for what, bad in find_bad_values(sample, slots):
            if what in seen:
                continue
            try:
                message = _try(entry, bad, context)
            except Refuse:
                continue
            seen.add(what)
            if message is None:
                continue
            same = bad.slot, bad.value > 0, _NUMBER.sub("#", message)
            if same not in reports:
                reports.add(same)
                yield find_on(RULE, subject, bad.sample, message)
    if not seen:
        raise Skipped("no sample holds a position")


def _try(entry: KernelEntry, bad: BadValue, context: CheckContext) -> str | None:
    """Return the fault of a kernel that is given a bad value, or None."""
    try:
        run = context.run(entry, bad.sample)
    except Refuse:  # an OpwrightError, too
        raise
    except OpwrightError as error:
        return _find_fault_of_text(entry.op_type, bad, error)
    return _find_fault_of_result(entry, bad, run, context)


def _find_fault_of_result(
    entry: KernelEntry, bad: BadValue, run: KernelRun, context: CheckContext
) -> str | None:
    assignment = f"{bad.slot}={bad.value}"
    if run.broken_guards or run.changed:
        where = ", ".join((*run.broken_guards, *run.changed))
        return f"{assignment} must be refused, got a write to {where}; check the range"
    if bad.must_be_refused(entry, context):
        return f"{assignment} must be refused, got a result; check the range first"
    if bad.may_lie_within:
        return None
    expected = find_expected(entry, bad.sample, context)
    fault = None if expected is None else find_fault(run.outputs, expected, bad.sample)
    return fault and f"{assignment} must be refused, or computed as elsewhere, got: {fault}"


def _find_fault_of_text(op_type: str, bad: BadValue, error: OpwrightError) -> str | None:
    reason = reason_of(error).partition("; inputs: ")[0]
    excerpt = repr(reason[-200:])
    # A device may report the error at the end of a plan; a gradient names the forward operator.
    forward = bad.sample.forward
    if (op_type if forward is None else forward.op_type) not in str(error):
        return f"the error for {bad.slot}={bad.value} must name the operator, got {excerpt}"
    if not re.search(rf"\bgot {bad.value}(?!\d)", reason):
        return (
            f"the error for {bad.slot}={bad.value} must say what it got, got {excerpt}; "
            "add 'got' and the value"
        )
    if not re.search(rf"\b{re.escape(bad.slot)}\b.* must ", reason):
        return (
            f"the error for {bad.slot}={bad.value} must say what {bad.slot} must be, "
            f"got {excerpt}; add the range"
        )
    return None
