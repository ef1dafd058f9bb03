"""NaN and infinity are computed like other numbers: no kernel fails on them, or makes them 0.

They are put into one place at a time. Outputs that follow an ordinary number there must follow NaN,
and those that grow with a large one, infinity. A reference beside the kernel must be finite where
it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from opwright.dtypes import is_float
from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright.registry import KernelEntry
from opwright.testing.context import CheckContext
from opwright.testing.failing import reason_of
from opwright.testing.gradient_samples import find_forward
from opwright.testing.observing import count_elements, find_on
from opwright.testing.sample import Array, Sample, meta_of, widen
from opwright.testing.scorecard import Finding, Skipped
from opwright.testing.special_numbers import (
    NOT_FINITE,
    Place,
    choose_places,
    number_at,
    with_number,
)
from opwright.testing.subjects import KernelSubject

RULE = "special-values"
SUMMARY = "NaN and infinity are computed, and reach the outputs that depend on them"
SUBJECT = KernelSubject

_MOST_ELEMENTS: Final = 600
_MOST_SAMPLES: Final = 3
"""Of each dtype, beside those with other attributes."""

_PLACES: Final = 2
"""Of each input."""

_LARGE: Final = {"float64": 1e100, "float32": 1e18, "bfloat16": 1e18}
"""Squares of them are finite. Those of float16 are too small to tell what grows with them."""

Outputs = Mapping[str, Sequence[Array]]


def concerns(subject: KernelSubject) -> bool:
    """Tell whether it is no gradient, which the rule `gradient-extremes` is about."""
    return find_forward(subject.op_type, subject.context) is None


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample in which a special number gets lost, or makes the kernel fail."""
    n_samples: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    for entry, sample in context.launches(subject.entries):
        if sample.drops_nan:
            raise Skipped(f"declared: {sample.drops_nan}")
        if not is_float(sample.dtype) or not 0 < count_elements(sample) <= _MOST_ELEMENTS:
            continue
        kind = (sample.dtype, str(sample.attrs))
        if kind in seen and n_samples[sample.dtype] >= _MOST_SAMPLES:
            continue
        seen.add(kind)
        plain = context.compute([entry], sample)
        if plain is None:
            continue
        n_samples[sample.dtype] += 1
        rng = np.random.default_rng([context.seed, max(sample.number, 0)])
        for place in choose_places(sample, _PLACES, rng):
            for fault in _find_faults(entry, sample, place, plain, context):
                yield find_on(RULE, subject, *fault)
    if not n_samples:
        raise Skipped("no sample of floats could be run")


def _find_faults(
    entry: KernelEntry, sample: Sample, place: Place, plain: Outputs, context: CheckContext
) -> Iterator[tuple[Sample, str]]:
    """Give what is wrong with special numbers in a place, with the sample that shows it."""
    for number in NOT_FINITE:
        changed = with_number(sample, place, number)
        try:
            outputs = context.launch(entry, sample).run(inputs=changed.inputs).outputs
        except OpwrightError as error:
            yield (
                changed,
                (
                    f"{place} = {number:g} must be computed, got {reason_of(error)}; give NaN or "
                    "infinity where there is no number"
                ),
            )
            continue
        wanted = _follow(entry, sample, place, number, plain, context)
        lost = None if wanted is None else _find_lost(outputs, wanted)
        if lost is not None:
            yield (
                changed,
                (
                    f"{place} = {number:g} must reach {lost}, which depends on it; compare so that "
                    "NaN passes on, or say in draw.drops_nan why it ends here (opwright.samples)"
                ),
            )
            continue
        other = _find_other(entry, sample, changed, outputs, context)
        if other is not None:
            yield (
                changed,
                (
                    f"{place} = {number:g} must give the same as the reference, got {other}; "
                    "compute NaN and infinity as it does"
                ),
            )


def _follow(
    entry: KernelEntry,
    sample: Sample,
    place: Place,
    number: float,
    plain: Outputs,
    context: CheckContext,
) -> dict[str, list[Array]] | None:
    """Return for each output of floats where it follows a place; None where that cannot be told."""
    launch = context.launch(entry, sample)
    ordinary = number_at(sample, place)
    if np.isnan(number):
        changed = with_number(sample, place, ordinary * 0.75 + np.copysign(0.125, ordinary))
    elif sample.dtype in _LARGE:
        changed = with_number(sample, place, np.copysign(_LARGE[sample.dtype], number))
    else:
        return None
    try:
        outputs = launch.run(inputs=changed.inputs).outputs
    except OpwrightError:
        return None
    if np.isnan(number):
        return _map_floats(outputs, plain, lambda a, b: np.isfinite(a) & (a != b))
    least = np.sqrt(_LARGE[sample.dtype])
    return _map_floats(outputs, plain, lambda a, b: np.isfinite(a) & (np.abs(a) > least))


def _map_floats(
    outputs: Outputs, plain: Outputs, tell: Callable[[Array, Array], Array]
) -> dict[str, list[Array]]:
    """Return what is told of each output of floats, beside the one of ordinary numbers."""
    found: dict[str, list[Array]] = {}
    for slot, arrays in outputs.items():
        found[slot] = [
            tell(widen(a), widen(b))
            if is_float(meta_of(a).dtype) and a.shape == b.shape
            else np.zeros(a.shape, bool)
            for a, b in zip(arrays, plain[slot], strict=True)
        ]
    return found


def _find_lost(outputs: Outputs, wanted: Mapping[str, Sequence[Array]]) -> str | None:
    """Return the first output that is finite where it must not be, with what it is."""
    for slot, arrays in outputs.items():
        for array, where in zip(arrays, wanted[slot], strict=True):
            if array.shape == where.shape and where.any():
                lost = np.argwhere(where & np.isfinite(widen(array)))
                if len(lost):
                    at = tuple(int(i) for i in lost[0])
                    return f"{slot}{list(at) if at else ''}, got {array[at]}"
    return None


def _find_other(
    entry: KernelEntry, sample: Sample, changed: Sample, outputs: Outputs, context: CheckContext
) -> str | None:
    """Return where a reference is finite and this is not, or the other way round."""
    for other in context.references(entry.op_type, sample.dtype, entry):
        try:
            wanted = context.launch(other, sample).run(inputs=changed.inputs).outputs
        except (Refuse, OpwrightError):
            continue
        for slot, arrays in outputs.items():
            for a, b in zip(arrays, wanted[slot], strict=True):
                if a.shape != b.shape or not is_float(meta_of(a).dtype):
                    continue
                differ = np.argwhere(np.isfinite(widen(a)) != np.isfinite(widen(b)))
                if len(differ):
                    at = tuple(int(i) for i in differ[0])
                    where = f"{slot}{list(at) if at else ''}"
                    return f"{a[at]} in {where}, {b[at]} by {other.library}"
        return None
    return None
