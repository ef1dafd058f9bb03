"""A pass does not make a program slower."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from opwright.runtime import CompiledNetwork
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import PassSubject
from opwright_kit.testing.rules.pass_results import Compared, compare_programs
from opwright_kit.testing.samples.sample import Array

RULE = "pass-time"
SUMMARY = "a program does not take longer with a pass than without it"
SUBJECT = PassSubject

_SLOWER: Final = 2.0
"""The allowed slowdown of the largest drawn program: random variation is smaller."""

_ROUNDS: Final = 15
_REPEATS: Final = 10


def check(subject: PassSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the largest program that the pass changes, if the pass makes it slower."""
    runs = compare_programs(subject, context)
    changed = [compared for _, compared, _ in runs if compared is not None]
    if not changed:
        raise Skipped("it changed none of the programs that were drawn")
    largest = max(changed, key=_count_elements)
    times = _time(largest)
    if times[0] > _SLOWER * times[1]:  # again, since another process may have used the processor
        times = [min(pair) for pair in zip(times, _time(largest), strict=True)]
    if times[0] > _SLOWER * times[1]:
        text = (
            f"{subject.name}: a program must take no longer with it, got {times[0] * 1e6:.3g} µs "
            f"instead of {times[1] * 1e6:.3g}; ask graph.estimate_ns before replacing operators"
        )
        yield Finding(RULE, subject.name, text, largest.program.text)


def _count_elements(compared: Compared) -> int:
    given = (*compared.program.feeds.values(), *compared.program.persistables.values())
    return sum(array.size for array in given)


def _time(compared: Compared) -> list[float]:
    """Return the shortest thread CPU time of each form in seconds; the forms are timed in turn."""
    least = [float("inf")] * 2
    for _ in range(_ROUNDS):
        for i, call in enumerate(compared.forms):
            least[i] = min(least[i], _run(call, compared.program.feeds))
    return least


def _run(call: CompiledNetwork, feeds: dict[str, Array]) -> float:
    start = time.thread_time()
    with np.errstate(all="ignore"):
        for _ in range(_REPEATS):
            call(**feeds)
    return (time.thread_time() - start) / _REPEATS
