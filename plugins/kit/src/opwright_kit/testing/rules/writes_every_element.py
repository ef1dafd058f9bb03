"""Every element of every output is written: none keeps the previous contents of the memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import Observation, observe
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.sample import variable_name

RULE = "writes-every-element"
SUMMARY = "every element of an output is written"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each output with an unwritten element, on each sample."""
    for observation in observe(subject, context):
        for name, count, first, size in _left(observation):
            yield observation.find(
                RULE,
                subject,
                f"every element of {name} must be written, got {count} of {size} left as they "
                f"were, the first at {first}; write them too",
            )


def _left(observation: Observation) -> Iterator[tuple[str, int, list[int], int]]:
    """Yield output, number of elements left unwritten, index of the first, and size."""
    for slot, masks in observation.first.untouched.items():
        for i, (one, other) in enumerate(
            zip(masks, observation.second.untouched[slot], strict=True)
        ):
            if one.shape != other.shape:
                continue
            left = np.argwhere(one & other)
            if len(left):
                yield variable_name(slot, i, len(masks)), len(left), left[0].tolist(), one.size
