"""Inputs that do not fit together are refused before a kernel sees them.

A kernel may derive its loop bounds from one array and read another array with them. So if one input
has a different shape or dtype, either the shape rule or the kernel must refuse it, or it is valid
and nothing outside of the arrays is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry, Refuse
from opwright_kit.testing.launch.kernel_run import POISON
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.failures import find_failure, is_refused_elsewhere
from opwright_kit.testing.observation.observation import (
    OTHER_POISON,
    equal_bytes,
    find_launch,
    find_on,
    repeats,
)
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.sample import Sample, SlotMetas, count_elements
from opwright_kit.testing.samples.wrong_inputs import find_wrong_samples

RULE = "inconsistent-inputs"
SUMMARY = (
    "an input whose shape or dtype does not fit the other inputs is refused, or has a defined "
    "meaning"
)
SUBJECT = KernelSubject

_MOST_SAMPLES: Final = 6
_MOST_ELEMENTS: Final = 4096
"""The largest size of a sample: only shapes matter here, and a kernel runs for each change."""


def concerns(subject: KernelSubject) -> bool:
    """Return whether there is more than one input, so one may not fit another."""
    slots = subject.definition.proto.inputs
    return len(slots) > 1 or any(slot.duplicable for slot in slots)


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield inputs that a kernel must refuse, or on which it accesses memory outside its arrays."""
    seen: set[tuple[SlotMetas, str]] = set()
    n_samples = 0
    for entry, sample in context.launches(subject.entries[:1]):
        if count_elements(sample) > _MOST_ELEMENTS or n_samples == _MOST_SAMPLES:
            continue
        if len([a for arrays in sample.inputs.values() for a in arrays]) < 2:
            continue
        if find_failure(entry, sample, context) is not None:
            continue
        n_samples += 1
        for wrong in find_wrong_samples(sample):
            key = wrong.input_metas(subject.definition), repr(wrong.attrs)
            if key in seen or not _reaches(wrong, subject):
                continue
            seen.add(key)
            message = _try(entry, wrong, context)
            if message is not None:
                yield find_on(RULE, subject, wrong, f"{wrong.label} {message}")
    if not n_samples:
        raise Skipped("no sample has several inputs")


def _reaches(sample: Sample, subject: KernelSubject) -> bool:
    """Return whether the shape rule accepts a sample, for a kernel of this dtype."""
    definition = subject.definition
    try:
        sample.infer(definition)
        dtype = definition.dispatch_dtype(sample.input_metas(definition), sample.attrs)
    except OpwrightError:
        return False
    return dtype == sample.dtype


def _try(entry: KernelEntry, sample: Sample, context: CheckContext) -> str | None:
    """Return the fault of a kernel that is given wrong inputs, or None."""
    launch = find_launch(entry, sample, context)
    if launch is None:
        return None
    try:
        first, second = launch.run(POISON), launch.run(OTHER_POISON)
    except (Refuse, OpwrightError):
        return None
    broken = dict.fromkeys((*first.broken_guards, *second.broken_guards, *first.changed))
    if broken:
        return f"must be refused, got a write to {', '.join(broken)}; compare it in the shape rule"
    if not equal_bytes(first.outputs, second.outputs) and repeats(launch, first):
        return (
            "must be refused, got results that depend on memory next to the arrays, or on old "
            "outputs; compare it in the shape rule"
        )
    if is_refused_elsewhere(entry, sample, context):
        return (
            "must be refused, got a result, but an error from another kernel; compare it in the "
            "shape rule"
        )
    return None
