"""A kernel keeps to its arrays: it writes nothing beside them, and nothing there matters to it."""

from __future__ import annotations

from collections.abc import Iterator

from opwright_kit.testing.launch.kernel_run import POISON
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observed import (
    OTHER_POISON,
    Observed,
    equal_bytes,
    observe,
    repeats,
)
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject

RULE = "guard-bytes"
SUMMARY = "nothing beside an array is written, and no result depends on what lies there"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample on which the kernel left its arrays."""
    for observed in observe(subject, context):
        broken = dict.fromkeys((*observed.first.broken_guards, *observed.second.broken_guards))
        if broken:
            where = ", ".join(broken)
            yield observed.find(
                RULE,
                subject,
                f"only outputs must be written, got a write to {where}; stay within their shapes",
            )
        elif _reads_beside(observed):
            yield observed.find(
                RULE,
                subject,
                "results must depend on the inputs alone, got others where other bytes lie beside "
                "the arrays or in the workspace; read only what was given or written",
            )


def _reads_beside(observed: Observed) -> bool:
    """Tell whether a change of nothing but guards and workspace changes the outputs."""
    first = observed.first.outputs
    if equal_bytes(first, observed.second.outputs):
        return False
    other = observed.launch.run(POISON, beside=OTHER_POISON)
    if equal_bytes(first, other.outputs) or not observed.repeats():
        return False
    return repeats(observed.launch, other, POISON, OTHER_POISON)
