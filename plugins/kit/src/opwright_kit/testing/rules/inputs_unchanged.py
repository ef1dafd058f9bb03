"""A kernel reads its inputs: it writes only declared aliases."""

from __future__ import annotations

from collections.abc import Iterator

from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.failures import reason_of, writes_input
from opwright_kit.testing.observation.observation import find_on, observe
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject

RULE = "inputs-unchanged"
SUMMARY = "inputs are not written, unless a declared alias shares their memory"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample whose input a kernel changed, or tried to change."""
    yield from _check_refused_writes(subject, context)
    for observation in observe(subject, context):
        changed = dict.fromkeys((*observation.first.changed, *observation.second.changed))
        if changed:
            names = ", ".join(changed)
            yield observation.find(
                RULE,
                subject,
                f"inputs must stay unchanged, got a write to {names}; write to an output, or "
                "declare one with aliases",
            )


def _check_refused_writes(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the samples on which a Python kernel failed because it wrote to an input."""
    for entry, sample in context.launches(subject.entries):
        try:
            context.run(entry, sample)
        except Refuse:
            continue
        except OpwrightError as error:
            if writes_input(error):
                message = (
                    f"inputs must stay unchanged, got {reason_of(error)}; write to an output, or "
                    "declare one with aliases"
                )
                yield find_on(RULE, subject, sample, message)
