"""A kernel does not access memory beyond its arrays, not even to read one byte.

The inputs, outputs and workspace of a kernel end, and in a second run begin, at pages that cannot
be accessed. A kernel that packs parameters is run with packed and with unpacked parameters. The
kernel runs in a copy of the process, so an invalid access terminates only the copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from opwright.device import HOST_DEVICE
from opwright.errors import OpwrightError
from opwright.kernel import ANY, Refuse
from opwright_kit.isolation.forked import Tell, run_forked
from opwright_kit.testing.launch import guard_pages
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import find_launch, find_on
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.rules.reference import Expected, find_fault

RULE = "guard-pages"
SUMMARY = "memory before the beginning and after the end of an array is not read"
SUBJECT = KernelSubject

_LACKS: Final = -1
"""Reported instead of a number if this machine lacks an ability that the kernel needs, with the
reason."""

_ALIGNED: Final = "itself on the same inputs at other addresses"


def concerns(subject: KernelSubject) -> bool:
    """Return whether the subject's kernels run in host memory."""
    return subject.entries[0].device in (HOST_DEVICE, ANY)


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample with a wrong result, and the first sample with an invalid access."""
    if not guard_pages.AVAILABLE:
        raise Skipped("guard pages are supported only on Linux")
    forms = list(product((False, True), ("end", "begin")))
    runs = [(*run, *form) for run in context.launches(subject.entries) for form in forms]

    def work(tell: Tell) -> None:
        for number, (entry, sample, packed, side) in enumerate(runs):
            tell((number, ""))
            try:
                launch = find_launch(entry, sample, context, packed=packed, pages=side)
                if launch is None:
                    continue
                expected = Expected(context.run(entry, sample, packed=packed).outputs, _ALIGNED)
                fault = find_fault(launch.run().outputs, expected, sample)
            except (Refuse, OpwrightError):
                continue  # other rules report it
            except Skipped as lack:
                tell((_LACKS, str(lack)))
                return
            if fault is not None:
                tell((number, fault))

    told, end = run_forked(work)
    for number, fault in told:
        if number == _LACKS:
            raise Skipped(fault)
        if fault:
            yield find_on(RULE, subject, runs[number][1], fault)
    if end:
        _, sample, _, side = runs[told[-1][0]]
        yield find_on(
            RULE,
            subject,
            sample,
            f"nothing beyond an array must be accessed, got a kernel that {end} on arrays that "
            f"{side} where memory cannot be read; stay within their shapes",
        )
