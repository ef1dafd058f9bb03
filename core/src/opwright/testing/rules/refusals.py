"""A kernel that declines says why, and computes something of what it is registered for."""

from __future__ import annotations

from collections.abc import Iterator

from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright.testing.context import CheckContext
from opwright.testing.observing import find_on
from opwright.testing.sample import Sample
from opwright.testing.scorecard import Finding
from opwright.testing.subjects import KernelSubject

RULE = "refusals"
SUMMARY = "a kernel that refuses gives a reason, and does not refuse all it is registered for"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield refusals without a reason, and dtypes that a kernel refuses altogether."""
    reasons: dict[str, list[tuple[Sample, str | None]]] = {}
    for entry, sample in context.launches(subject.entries):
        reason = None
        try:
            context.new_launch(entry, sample)
        except Refuse as refusal:
            reason = refusal.reason.strip()
            if not _says_why(reason):
                yield find_on(
                    RULE,
                    subject,
                    sample,
                    f"a refusal must say why, got {reason!r}; give ctx.refuse, or OW_REFUSED, a "
                    "reason in a few words",
                )
        except OpwrightError:
            pass  # it fails, which is no refusal: the rule `reference` tells of it
        reasons.setdefault(sample.dtype, []).append((sample, reason))
    for dtype, listed in reasons.items():
        # What has no elements may be left to other kernels.
        has_elements = any(_has_elements(sample) for sample, _ in listed)
        if has_elements and all(reason is not None for _, reason in listed):
            yield _refuses_all(subject, dtype, listed)


def _has_elements(sample: Sample) -> bool:
    return all(array.size for arrays in sample.inputs.values() for array in arrays)


def _says_why(reason: str) -> bool:
    """Tell whether there is a reason: one word is none."""
    return len(reason.split()) > 1 and reason != "gave no reason"


def _refuses_all(
    subject: KernelSubject, dtype: str, listed: list[tuple[Sample, str | None]]
) -> Finding:
    sample, reason = listed[0]
    message = (
        f"what is registered must be computed, got a refusal of all {len(listed)} samples of "
        f"{dtype}: {reason}; register what it computes, or say in opwright.samples what "
        "it takes"
    )
    return find_on(RULE, subject, sample, message)
