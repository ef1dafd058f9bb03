"""Checks gradients of element-wise operators far from 0, where many formulas lose precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from opwright_kit.testing.gradients.derivatives import Derivative
from opwright_kit.testing.samples.sample import Array, Sample, find_first
from opwright_kit.testing.samples.special_numbers import Place, filled_with

_TAILS: Final = (4.0, 8.0, 15.0, 30.0, 60.0, 88.0, 188.0, 1e3, 1e8, 1e16)
"""Magnitudes, tried with both signs. At the first, exponentials lose their last digits."""

_NEAR: Final = (0.5, -0.5)
"""The points where a gradient is compared first; faults there do not concern tails."""

_FARTHER: Final = (1e100, 1e200)
"""In float64."""

_RTOL: Final = 1e-2
"""The gradient tolerance; formulas with cancellation exceed it by far, other formulas do not."""

_STEP: Final = 1e-3
"""The step of a difference, as a fraction of the number."""

_SMALL: Final = 1e-30
_LARGE: Final = 1e30
"""Between these bounds, numbers and intermediate results have full precision in float32."""

_NOISE: Final = 1e-6
"""Tolerated residue in float32, for values around 1, where float64 gives 0."""

_ADVICE: Final = "use a formula that does not cancel or overflow there"


class Wide(NamedTuple):
    """The same gradient in float64, and the library that computes it."""

    derivative: Derivative
    library: str


def find_fault_far_out(derivative: Derivative, wide: Wide | None) -> tuple[Sample, str] | None:
    """Return the sample and the fault of a gradient that is wrong far from 0, or None.

    The gradient is compared with the gradient in a wider dtype, or otherwise with central
    differences.
    """
    if derivative.forward.loses_tails:
        return None
    for slot in filter(derivative.is_elementwise, derivative.slots):
        if wide is None:
            faults = _beside_differences(derivative, slot)
        else:
            faults = _beside_float64(derivative, slot, wide)
        fault = next(faults, None) or next(_at_infinity(derivative, slot), None)
        if fault is not None:
            return fault
    return None


def _numbers(*beyond: float) -> Iterator[float]:
    for size in (*_TAILS, *beyond):
        yield from (size, -size)


def _beside_float64(derivative: Derivative, slot: str, wide: Wide) -> Iterator[tuple[Sample, str]]:
    reference = wide.derivative
    for number in _numbers():
        changed = filled_with(derivative.forward, slot, number)
        # Round to the narrow dtype, since a periodic function may differ between adjacent floats.
        held = float(changed.inputs[slot][0].dtype.type(number))
        got = derivative.gradients(changed)
        expected = reference.gradients(filled_with(reference.forward, slot, held))
        if got is None or expected is None:
            continue
        at = _find_apart(got[slot][0], expected[slot][0])
        if at is not None:
            yield changed, _say(slot, at, number, got[slot][0], expected[slot][0], wide.library)


def _find_apart(got: Array, expected: Array) -> tuple[int, ...] | None:
    """Return the index of the first element that differs from float64 beyond the tolerance."""
    size = np.abs(expected)
    with np.errstate(all="ignore"):
        apart = (np.abs(got - expected) > _RTOL * size) | ~np.isfinite(got)
        apart &= (size > _SMALL) & (size < _LARGE)
        apart |= (size <= _SMALL) & ~(np.abs(got) <= _NOISE)
    return find_first(apart)


def _say(
    slot: str, at: tuple[int, ...], number: float, got: Array, expected: Array, library: str
) -> str:
    return (
        f"the gradient of {Place(slot, 0, at)} = {number:g} must be right far from 0, got "
        f"{got[at]:.6g}, {expected[at]:.6g} by {library} in float64; {_ADVICE}"
    )


def _beside_differences(derivative: Derivative, slot: str) -> Iterator[tuple[Sample, str]]:
    for number in (*_NEAR, *_numbers(*_FARTHER)):
        changed = filled_with(derivative.forward, slot, number)
        gradients = derivative.gradients(changed, 1.0)
        pairs = [_difference(derivative, slot, number, h) for h in (_STEP, _STEP / 2)]
        if gradients is None or pairs[0] is None or pairs[1] is None:
            continue
        (wide, _), (difference, noise) = pairs[0], pairs[1]
        got = gradients[slot][0]
        with np.errstate(all="ignore"):
            certain = np.abs(wide - difference) <= _RTOL * np.abs(difference) / 2 + noise
            apart = np.abs(got - difference) > _RTOL * np.abs(difference) + noise + _SMALL
        at = find_first(certain & apart)
        if at is not None and number in _NEAR:
            return  # it is wrong everywhere, which the rule `gradient` finds
        if at is not None:
            yield (
                changed,
                (
                    f"the gradient of {Place(slot, 0, at)} = {number:g} must be right far "
                    f"from 0 too, got {got[at]:.6g}, central differences give "
                    f"{difference[at]:.6g}; {_ADVICE}"
                ),
            )


def _difference(
    derivative: Derivative, slot: str, number: float, step: float
) -> tuple[Array, Array] | None:
    """Return central differences of the sum of all outputs, and a bound on their errors."""
    sides = [
        derivative.weighted(filled_with(derivative.forward, slot, number * (1 + sign * step)))
        for sign in (1, -1)
    ]
    if sides[0] is None or sides[1] is None:
        return None
    up, down = sum(sides[0]), sum(sides[1])
    width = 2 * step * abs(number)
    with np.errstate(all="ignore"):
        difference = np.asarray((up - down) / np.copysign(width, number))
        noise = np.asarray(16 * np.finfo(np.float64).eps * (np.abs(up) + np.abs(down)) / width)
    return difference, noise


def _at_infinity(derivative: Derivative, slot: str) -> Iterator[tuple[Sample, str]]:
    """Yield the gradients that are constant for large numbers and differ at infinity."""
    for sign in (1.0, -1.0):
        changed = filled_with(derivative.forward, slot, sign * np.inf)
        near, far, end = (
            derivative.gradients(filled_with(derivative.forward, slot, number), 1.0)
            for number in (sign * 1e8, sign * 1e16, sign * np.inf)
        )
        if near is None or far is None or end is None:
            continue
        a, b, got = near[slot][0], far[slot][0], end[slot][0]
        at = find_first((a == b) & np.isfinite(a) & (got != a) & ~np.isnan(got))
        if at is not None:
            yield (
                changed,
                (
                    f"the gradient of {Place(slot, 0, at)} = {sign * np.inf} must be the "
                    f"gradient far from 0, {a[at]:g}, got {got[at]:g}; handle infinity separately"
                ),
            )
