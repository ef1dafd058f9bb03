"""A kernel that refuses gives the reason, and accepts some of its registered dtypes."""

from __future__ import annotations

from collections.abc import Iterator

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry, Refuse, Unsupported
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import find_on
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.sample import Sample

RULE = "refusals"
SUMMARY = (
    "a kernel that refuses gives a reason, and does not refuse everything for which it is "
    "registered"
)
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield refusals without a reason, and dtypes that a kernel refuses altogether.

    Raises
    ------
    Skipped
        If nothing is wrong, but a dtype cannot run on this machine.
    """
    refused: dict[str, list[tuple[Sample, Refuse | None]]] = {}
    is_sound = True
    for entry, sample in context.launches(subject.entries):
        refusal = _find_refusal(entry, sample, context)
        refused.setdefault(sample.dtype, []).append((sample, refusal))
        if refusal is not None and not _says_why(refusal):
            is_sound = False
            yield _silent(subject, sample, refusal)
    lacks = []
    for dtype, pairs in refused.items():
        # Empty inputs may be left to other kernels.
        has_elements = any(_has_elements(sample) for sample, _ in pairs)
        refusals = [(sample, refusal) for sample, refusal in pairs if refusal is not None]
        if not has_elements or len(refusals) < len(pairs):
            continue
        lack = next((r for _, r in refusals if isinstance(r, Unsupported)), None)
        if lack is not None:
            lacks.append(f"{dtype}: {lack.reason}")
            continue
        is_sound = False
        yield _refuses_all(subject, dtype, *refusals[0], len(refusals))
    if is_sound and lacks:
        raise Skipped("; ".join(lacks))


def _has_elements(sample: Sample) -> bool:
    return all(array.size for arrays in sample.inputs.values() for array in arrays)


def _find_refusal(entry: KernelEntry, sample: Sample, context: CheckContext) -> Refuse | None:
    try:
        context.new_launch(entry, sample)
    except Refuse as refusal:
        return refusal.with_traceback(None)
    except OpwrightError:
        pass  # a failure, not a refusal: the rule `shape-rule` reports it
    return None


def _reason_of(refusal: Refuse) -> str:
    """Return the reason given by the kernel."""
    return (refusal.lack if isinstance(refusal, Unsupported) else refusal.reason).strip()


def _says_why(refusal: Refuse) -> bool:
    """Return whether there is a reason; a single word does not count."""
    reason = _reason_of(refusal)
    return len(reason.split()) > 1 and reason != "gave no reason"


def _silent(subject: KernelSubject, sample: Sample, refusal: Refuse) -> Finding:
    message = (
        f"a refusal must say why, got {_reason_of(refusal)!r}; give ctx.refuse, or OW_REFUSED, a "
        "reason in a few words"
    )
    return find_on(RULE, subject, sample, message)


def _refuses_all(
    subject: KernelSubject, dtype: str, sample: Sample, refusal: Refuse, count: int
) -> Finding:
    message = (
        f"registered dtypes must be computed, got a refusal of all {count} samples of "
        f"{dtype}: {_reason_of(refusal)}; register only dtypes that it computes, describe valid "
        "inputs in opwright.samples, or report by ctx.lack or OW_UNSUPPORTED what the machine lacks"
    )
    return find_on(RULE, subject, sample, message)
