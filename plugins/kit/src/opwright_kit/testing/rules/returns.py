"""Every run of a kernel returns, and the process survives.

A crash ends the checking process before it can report the crash, so `opwright check` runs the
rules in a separate process, and reports its last action. This rule runs every sample once, before
the other rules, so it finds a crash first.
"""

from __future__ import annotations

from collections.abc import Iterator

from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject

RULE = "returns"
SUMMARY = "every run returns: no run terminates the process or exceeds the time limit"
SUBJECT = KernelSubject
FIRST = True


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Run each sample; other rules inspect the results."""
    for entry, sample in context.launches(subject.entries):
        try:
            context.run(entry, sample)
        except (Refuse, OpwrightError):
            continue
    yield from ()
