"""A kernel reads its inputs: it writes only what the operator declares as an alias."""

from __future__ import annotations

from collections.abc import Iterator

from opwright.testing.context import CheckContext
from opwright.testing.observing import observe
from opwright.testing.scorecard import Finding
from opwright.testing.subjects import KernelSubject

RULE = "inputs-unchanged"
SUMMARY = "no input is written, except where a declared alias lies in its memory"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample of which an input was changed."""
    for observed in observe(subject, context):
        changed = dict.fromkeys((*observed.first.changed, *observed.second.changed))
        if changed:
            names = ", ".join(changed)
            yield observed.find(
                RULE,
                subject,
                f"inputs must stay as they are, got a write to {names}; write to an output, or "
                "declare one with aliases",
            )
