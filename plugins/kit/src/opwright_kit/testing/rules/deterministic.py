"""A kernel that is declared deterministic gives bitwise identical results for equal inputs.

The results do not depend on the number of threads either, unless the kernel declares that they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opwright.device import HOST_DEVICE
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import (
    Observation,
    choose_largest,
    find_difference,
    observe,
)
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject

RULE = "deterministic"
SUMMARY = (
    "a kernel declared deterministic gives bitwise identical results in every run, on any "
    "number of threads"
)
SUBJECT = KernelSubject

_RUNS: Final = 6
_COUNTS: Final = (1, 2, 3, 8)
_SAMPLES: Final = 2
"""How many of the largest samples are run per kernel, since order matters in long sums."""


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the samples on which two runs differ."""
    observations = [each for each in observe(subject, context) if each.entry.deterministic]
    if not observations:
        raise Skipped("declared as not deterministic")
    for entry in subject.entries:
        mine = [each for each in observations if each.entry is entry]
        for each in choose_largest(mine, _SAMPLES):
            yield from _compare_counts(each, subject, context)
            for n_threads in (1, 2):
                launch = each.find_like(context, n_threads=n_threads)
                if launch is None:
                    continue
                first = launch.run().outputs
                runs = (find_difference(first, launch.run().outputs) for _ in range(_RUNS))
                other = next((name for name in runs if name is not None), None)
                if other is not None:
                    yield each.find(
                        RULE,
                        subject,
                        f"equal inputs must give equal bits, got a different {other} in a later "
                        f"run with {n_threads} thread{'s' * (n_threads > 1)}; fix the order, or "
                        "declare deterministic=False",
                    )
                    break


def _compare_counts(
    observation: Observation, subject: KernelSubject, context: CheckContext
) -> Iterator[Finding]:
    """Yield the sample if the result depends on the number of threads, and this is undeclared."""
    entry = observation.entry
    if entry.device != HOST_DEVICE or entry.by_threads or not observation.repeats():
        return  # only the host has threads
    launches = (observation.find_like(context, n_threads=count) for count in _COUNTS)
    first, *others = (None if launch is None else launch.run().outputs for launch in launches)
    if first is None:
        return
    for count, outputs in zip(_COUNTS[1:], others, strict=True):
        other = None if outputs is None else find_difference(first, outputs)
        if other is not None:
            yield observation.find(
                RULE,
                subject,
                f"equal inputs must give equal bits, got another {other} with {count} threads than "
                "with 1; divide the work by shapes alone, or declare options.by_threads = true "
                "(in Python: deterministic=False)",
            )
            return
