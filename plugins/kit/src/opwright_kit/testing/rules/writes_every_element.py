"""Every element of every output is written: what the memory held before is never left there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observed import Observed, observe
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject

RULE = "writes-every-element"
SUMMARY = "no element of an output is left as the memory was"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each output of which an element was left, on each sample."""
    for observed in observe(subject, context):
        for name, count, first, size in _left(observed):
            yield observed.find(
                RULE,
                subject,
                f"every element of {name} must be written, got {count} of {size} left as they "
                f"were, the first at {first}; write them too",
            )


def _left(observed: Observed) -> Iterator[tuple[str, int, list[int], int]]:
    """Give output, number of its elements that were left, and the place of the first of them."""
    for slot, listed in observed.first.untouched.items():
        for i, (one, other) in enumerate(zip(listed, observed.second.untouched[slot], strict=True)):
            if one.shape != other.shape:
                continue
            left = np.argwhere(one & other)
            if len(left):
                name = slot if len(listed) == 1 else f"{slot}[{i}]"
                yield name, len(left), left[0].tolist(), one.size
