"""A kernel stays within its arrays: it does not write other memory or depend on it."""

from __future__ import annotations

from collections.abc import Iterator

from opwright_kit.testing.launch.kernel_run import POISON
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import (
    OTHER_POISON,
    Observation,
    equal_bytes,
    observe,
    repeats,
)
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject

RULE = "guard-bytes"
SUMMARY = "memory next to an array is not written, and results do not depend on it"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample on which the kernel left its arrays."""
    for observation in observe(subject, context):
        broken = dict.fromkeys(
            (*observation.first.broken_guards, *observation.second.broken_guards)
        )
        if broken:
            where = ", ".join(broken)
            yield observation.find(
                RULE,
                subject,
                f"only outputs must be written, got a write to {where}; stay within their shapes",
            )
        elif _reads_beside(observation):
            yield observation.find(
                RULE,
                subject,
                "results must depend on the inputs alone, got different ones for different bytes "
                "next to the arrays or in the workspace; read only what was given or written",
            )


def _reads_beside(observation: Observation) -> bool:
    """Return whether changing only guards and workspace changes the outputs."""
    first = observation.first.outputs
    if equal_bytes(first, observation.second.outputs):
        return False
    other = observation.launch.run(POISON, beside=OTHER_POISON)
    if equal_bytes(first, other.outputs) or not observation.repeats():
        return False
    return repeats(observation.launch, other, POISON, OTHER_POISON)
