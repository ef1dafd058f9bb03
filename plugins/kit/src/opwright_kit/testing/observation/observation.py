"""Runs kernels on all their samples, once for all rules that inspect the outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry, Refuse
from opwright_kit.testing.launch.kernel_run import POISON, KernelRun
from opwright_kit.testing.launch.launching import Launch
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject, OperatorSubject
from opwright_kit.testing.samples.draw import LARGE
from opwright_kit.testing.samples.sample import Array, Sample, count_elements, variable_name

OTHER_POISON: Final = 0x41
"""A second poison byte: 12 in float32, 2 million in float64, so additions to it are detected."""

_REPEATS: Final = 16


class Observation(NamedTuple):
    """A kernel run twice on one sample, with different bytes in memory the second time.

    If the kernel packs inputs, the second run uses the packed copy made in the first run.

    Attributes
    ----------
    entry : KernelEntry
    sample : Sample
    launch : Launch
        Runs the kernel again.
    first, second : KernelRun
        The runs with `POISON` and with `OTHER_POISON`.
    """

    entry: KernelEntry
    sample: Sample
    launch: Launch
    first: KernelRun
    second: KernelRun

    def repeats(self) -> bool:
        """Return whether several runs on identical inputs and memory have equal results."""
        return repeats(self.launch, self.first)

    def find(self, rule: str, subject: KernelSubject, message: str) -> Finding:
        """Return a finding for this sample."""
        packed = f", where it packs {', '.join(self.launch.packed)}" if self.launch.packed else ""
        return find_on(rule, subject, self.sample, f"{message}{packed}")

    def find_like(self, context: CheckContext, **options: object) -> Launch | None:
        """Return the same launch with other options, or None if it cannot be prepared."""
        packed = bool(self.launch.packed)
        return find_launch(self.entry, self.sample, context, packed=packed, **options)


def repeats(
    launch: Launch, expected: KernelRun, poison: int = POISON, beside: int | None = None
) -> bool:
    """Return whether further runs in such memory are bitwise identical to the expected result.

    If other memory seems to change a result, both results must be reproducible, since a result that
    varies anyway may differ by chance.
    """
    runs = (launch.run(poison, beside=beside).outputs for _ in range(_REPEATS))
    return all(equal_bytes(expected.outputs, outputs) for outputs in runs)


def find_on(
    rule: str, subject: KernelSubject | OperatorSubject, sample: Sample, message: str
) -> Finding:
    """Return a finding about an operator or a kernel, with the sample that shows it."""
    text = f"{subject.name}: {message}"
    return Finding(rule, subject.name, text, sample.describe(), sample.number, sample.dtype)


def observe(subject: KernelSubject, context: CheckContext) -> list[Observation]:
    """Run the kernels of a subject on every sample that they do not refuse, packed if they pack.

    A run that fails is skipped; the rule `shape-rule` reports it.

    Raises
    ------
    Skipped
        If no kernel ran.
    """
    latest = _last.get(context)
    if latest is None or latest[0] != subject:
        latest = _last[context] = (subject, _observe(subject, context))
    if not latest[1]:
        raise Skipped("no sample could be run: all were refused, or failed")
    return latest[1]


# For each check, the observations of its current subject, which several rules use.
_last: WeakKeyDictionary[CheckContext, tuple[KernelSubject, list[Observation]]] = (
    WeakKeyDictionary()
)


def _observe(subject: KernelSubject, context: CheckContext) -> list[Observation]:
    observations = []
    for entry, sample in context.launches(subject.entries):
        for packed in (False, True):
            launch = find_launch(entry, sample, context, packed=packed)
            if launch is None:
                continue
            try:
                first, second = launch.run(POISON), launch.run(OTHER_POISON)
            except OpwrightError:
                continue
            observations.append(Observation(entry, sample, launch, first, second))
    return observations


def find_launch(
    entry: KernelEntry, sample: Sample, context: CheckContext, **options: object
) -> Launch | None:
    """Return a kernel prepared for a sample, or None if it refuses, fails or does not pack.

    Raises
    ------
    Skipped If this machine lacks an ability that the kernel needs.
    """
    try:
        return context.new_launch(entry, sample, **options)
    except (Refuse, OpwrightError):
        return None


def choose_largest(observations: Iterable[Observation], most: int) -> list[Observation]:
    """Return the samples with the most elements, if possible with axes of at most `LARGE`.

    A kernel whose work grows with the square of an axis would take minutes on longer axes.
    """
    ordered = sorted(observations, key=lambda each: count_elements(each.sample))
    short = [each for each in ordered if _longest_axis(each.sample) <= LARGE]
    return (short or ordered)[-most:]


def _longest_axis(sample: Sample) -> int:
    return max((d for arrays in sample.inputs.values() for a in arrays for d in a.shape), default=0)


def equal_bytes(a: dict[str, list[Array]], b: dict[str, list[Array]]) -> bool:
    """Return whether outputs are bitwise identical."""
    return find_difference(a, b) is None


def find_difference(a: dict[str, list[Array]], b: dict[str, list[Array]]) -> str | None:
    """Return the first output whose shape or bits differ, or None if all outputs are equal."""
    for slot, arrays in a.items():
        for i, (x, y) in enumerate(zip(arrays, b[slot], strict=True)):
            if x.shape != y.shape or x.tobytes() != y.tobytes():
                return variable_name(slot, i, len(arrays))
    return None
