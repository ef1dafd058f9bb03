"""Every run of a kernel comes to its end, and the process goes on.

Where one does not, the process that checks is gone before it can say so: `opwright check` runs the
rules in a process of its own, and reports what that one was running. This rule runs every sample
once, before the others do: what ends the process is found by it.
"""

from __future__ import annotations

from collections.abc import Iterator

from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject

RULE = "returns"
SUMMARY = "every run returns: none ends the process, or outlasts the time limit"
SUBJECT = KernelSubject
FIRST = True


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Run each sample; what it gives, other rules look at."""
    for entry, sample in context.launches(subject.entries):
        try:
            context.run(entry, sample)
        except (Refuse, OpwrightError):
            continue
    yield from ()
