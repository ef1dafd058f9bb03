"""NaN and infinity are computed like other numbers: no kernel fails on them, or drops them.

NaN and infinity are inserted into one element at a time. Outputs that change if an ordinary number
is inserted must become NaN, and outputs that grow with a large number must become infinite. A
reference kernel must be finite in the same elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry, Refuse
from opwright.op import FLOAT_DTYPES, is_float
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.failures import reason_of
from opwright_kit.testing.observation.observation import find_on
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.choice import SampleChoice
from opwright_kit.testing.samples.gradient_samples import find_forward
from opwright_kit.testing.samples.sample import (
    Array,
    Sample,
    element_name,
    find_first,
    meta_of,
    variable_name,
    widen,
)
from opwright_kit.testing.samples.special_numbers import (
    NOT_FINITE,
    Place,
    choose_places,
    number_at,
    with_number,
)

RULE = "special-values"
SUMMARY = "NaN and infinity are accepted, and reach the outputs that depend on them"
SUBJECT = KernelSubject

_PLACES: Final = 2
"""Number of places tried in each input."""

_LARGE_SAMPLES: Final = 2
"""Large samples of each dtype: a kernel may work in blocks of hundreds of elements."""

_LARGE: Final = {"float64": 1e100, "float32": 1e18, "bfloat16": 1e18}
"""Squares of them are finite. The numbers of float16 are too small to show growth."""

Outputs = Mapping[str, Sequence[Array]]
Masks = dict[str, list[Array]]


def concerns(subject: KernelSubject) -> bool:
    """Return False for gradients, which the rule `gradient-extremes` checks."""
    return find_forward(subject.op_type, subject.context) is None


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample where a special number is lost or makes the kernel fail."""
    choice = SampleChoice(FLOAT_DTYPES, _LARGE_SAMPLES)
    for entry, sample in context.launches(subject.entries):
        if sample.drops_nan:
            raise Skipped(f"declared: {sample.drops_nan}")
        if not choice.wants(sample):
            continue
        plain = context.compute([entry], sample)
        if plain is None:
            continue
        choice.add(sample)
        for place in choose_places(sample, _PLACES, context.rng(sample)):
            for fault in _Probe(entry, sample, place, plain, context).find_faults():
                yield find_on(RULE, subject, *fault)
    if choice.is_empty:
        raise Skipped("no sample of floats could be run")


class _Probe:
    """Runs a kernel on a sample with different numbers at one position.

    Parameters
    ----------
    entry : KernelEntry
    sample : Sample
    place : Place
    plain : mapping of str to sequence of ndarray
        The result of the kernel for the drawn number.
    context : CheckContext
    """

    def __init__(
        self,
        entry: KernelEntry,
        sample: Sample,
        place: Place,
        plain: Outputs,
        context: CheckContext,
    ) -> None:
        self._entry = entry
        self._sample = sample
        self._place = place
        self._plain = plain
        self._context = context
        number = number_at(sample, place)
        nearby, opposite = number * 0.75 + np.copysign(0.125, number), -number
        self._followers = self._where(nearby, _differ)
        self._dependents = _either(self._followers, self._where(opposite, _differ))

    def find_faults(self) -> Iterator[tuple[Sample, str]]:
        """Yield each failing sample with NaN or infinity at the position, and its fault."""
        for number in NOT_FINITE:
            changed = with_number(self._sample, self._place, number)
            text = self._find_fault(changed, number)
            if text is not None:
                yield changed, f"{self._place} = {number:g} must {text}"

    def _find_fault(self, changed: Sample, number: float) -> str | None:
        try:
            outputs = self._run(self._entry, changed)
        except OpwrightError as error:
            return (
                f"be computed, got {reason_of(error)}; give NaN or infinity where there is no "
                "number"
            )
        lost = self._find_lost(outputs, number)
        if lost is not None:
            return (
                f"reach {lost}, which depends on it; compare so that NaN propagates, or say in "
                "draw.drops_nan why it ends here (opwright.samples)"
            )
        other = self._find_other(outputs, changed)
        if other is not None:
            return f"give what the reference does, got {other}; compute NaN and infinity as it does"
        return None

    def _run(self, entry: KernelEntry, changed: Sample) -> Outputs:
        return self._context.launch(entry, self._sample).run(inputs=changed.inputs).outputs

    def _where(self, number: float, tell: Callable[[Array, Array], Array]) -> Masks | None:
        """Return masks of the output elements for which `tell` is true if `number` is inserted."""
        try:
            outputs = self._run(self._entry, with_number(self._sample, self._place, number))
        except OpwrightError:
            return None
        pairs = {slot: zip(a, self._plain[slot], strict=True) for slot, a in outputs.items()}
        return {
            slot: [_tell(a, b, tell) for a, b in slot_pairs] for slot, slot_pairs in pairs.items()
        }

    def _find_lost(self, outputs: Outputs, number: float) -> str | None:
        """Return the first output that is finite although it must not be, with its value."""
        masks = self._followers
        if not np.isnan(number):
            large = _LARGE.get(self._sample.dtype, np.inf)
            masks = self._where(np.copysign(large, number), _grows(large))
        for name, array, where in _masked(outputs, masks):
            at = find_first(where & np.isfinite(widen(array)))
            if at is not None:
                return f"{element_name(name, at)}, got {array[at]}"
        return None

    def _find_other(self, outputs: Outputs, changed: Sample) -> str | None:
        """Return where a reference is finite and this kernel is not, or vice versa.

        Only outputs that depend on the element are compared, since a kernel may or may not multiply
        it by a factor of 0, such as in padding.
        """
        for other in self._context.references(self._entry.op_type, changed.dtype, self._entry):
            try:
                reference = self._run(other, changed)
            except (Refuse, OpwrightError):
                continue
            beside = iter([b for arrays in reference.values() for b in arrays])
            for name, a, where in _masked(outputs, self._dependents):
                b = next(beside)
                if a.shape == b.shape and where.any():
                    at = find_first(where & (np.isfinite(widen(a)) != np.isfinite(widen(b))))
                    if at is not None:
                        place = element_name(name, at)
                        return f"{a[at]} in {place}, {b[at]} by {other.library}"
            return None
        return None


def _tell(a: Array, b: Array, tell: Callable[[Array, Array], Array]) -> Array:
    if not is_float(meta_of(a).dtype) or a.shape != b.shape:
        return np.zeros(a.shape, bool)
    return tell(widen(a), widen(b))


def _differ(a: Array, b: Array) -> Array:
    return np.asarray(np.isfinite(a) & (a != b))


def _grows(large: float) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.asarray(np.isfinite(a) & (np.abs(a) > np.sqrt(large)))


def _either(a: Masks | None, b: Masks | None) -> Masks | None:
    if a is None or b is None:
        return a or b
    return {slot: [x | y for x, y in zip(a[slot], b[slot], strict=True)] for slot in a}


def _masked(outputs: Outputs, masks: Masks | None) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name of each output, the output and a mask; skip outputs with a different shape."""
    for slot, arrays in outputs.items() if masks is not None else ():
        for i, array in enumerate(arrays):
            where = masks[slot][i] if masks is not None else np.zeros(array.shape, bool)
            name = variable_name(slot, i, len(arrays))
            yield name, array, where if where.shape == array.shape else np.zeros(array.shape, bool)
