"""Gradients are right at extremes: for an infinite out_grad, at NaN, and far from 0.

- An input that no output depends on gets 0, even if `out_grad` is infinite: a gradient must select
  there, not multiply by 0.
- An input that is NaN, and reaches an output, gets a gradient other than 0.
- For element-wise operators, far from 0: in float32 the gradient equals the gradient in float64, in
  float64 it agrees with central differences, and at infinity it is the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from opwright import context_guard
from opwright.kernel import KernelEntry
from opwright.op import GradOp, NoGradient
from opwright_kit.testing.gradients.derivatives import (
    Derivative,
    KernelDerivative,
    ProgramDerivative,
)
from opwright_kit.testing.gradients.far_tails import Wide, find_fault_far_out
from opwright_kit.testing.gradients.training import pinned, skip_without_gradient
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import equal_bytes, find_on
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject, OperatorSubject
from opwright_kit.testing.samples.choice import SampleChoice
from opwright_kit.testing.samples.gradient_samples import find_forward
from opwright_kit.testing.samples.sample import Sample, widen
from opwright_kit.testing.samples.special_numbers import (
    Place,
    choose_places,
    number_at,
    with_number,
)

RULE = "gradient-extremes"
SUMMARY = "gradients are correct for an infinite out_grad, at NaN, and far from 0"
SUBJECT = (OperatorSubject, KernelSubject)

_PLACES: Final = 8
"""Number of places tried in each input."""

_DTYPES: Final = ("float64", "float32")
"""Narrower dtypes have few numbers between the samples and infinity."""

_STEP: Final = 1e-3


def concerns(subject: OperatorSubject | KernelSubject) -> bool:
    """Return whether the operator is a gradient, or other operators compute its gradient."""
    if isinstance(subject, KernelSubject):
        return find_forward(subject.op_type, subject.context) is not None
    definition = subject.definition
    return not (definition.plan_only or isinstance(definition.gradient, GradOp | NoGradient))


def check(subject: OperatorSubject | KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample with a wrong gradient."""
    if isinstance(subject, KernelSubject):
        yield from _check_kernels(subject, context)
    else:
        skip_without_gradient(subject)
        with context_guard(pinned(subject)):
            yield from _check_programs(subject, context)


def _check_kernels(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    choice = SampleChoice(_DTYPES)
    for entry, sample in context.launches(subject.entries):
        if sample.forward is None or not choice.wants(sample):
            continue
        choice.add(sample)
        derivative = KernelDerivative(entry, sample, sample.forward, context)
        wide = None if sample.dtype == "float64" else _widen(entry, sample, context)
        if sample.dtype != "float64" and wide is None:
            continue
        for changed, text in _find_faults(derivative, wide, context):
            yield find_on(RULE, subject, changed, text)
    _skip_if_empty(choice)


def _widen(entry: KernelEntry, sample: Sample, context: CheckContext) -> Wide | None:
    wide = context.widen(sample)
    references = context.references(entry.op_type, "float64")
    if wide is None or wide.forward is None or not references:
        return None
    reference = references[0]
    return Wide(KernelDerivative(reference, wide, wide.forward, context), reference.library)


def _check_programs(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    choice = SampleChoice(_DTYPES)
    for sample in context.samples(subject.definition, "float64"):
        if not choice.wants(sample):
            continue
        choice.add(sample)
        context.note(f"the gradient of {subject.name}", sample)
        derivative = ProgramDerivative(subject.definition, sample, context.seed)
        if derivative.slots:
            for changed, text in _find_faults(derivative, None, context):
                yield find_on(RULE, subject, changed, text)
    _skip_if_empty(choice)


def _skip_if_empty(choice: SampleChoice) -> None:
    if choice.is_empty:
        raise Skipped("no sample in float32 or float64 could be run")


def _find_faults(
    derivative: Derivative, wide: Wide | None, context: CheckContext
) -> Iterator[tuple[Sample, str]]:
    """Yield the first fault of each kind, with the sample that shows it."""
    rng = context.rng(derivative.forward)
    candidates = choose_places(derivative.forward, _PLACES, rng)
    places = [place for place in candidates if place.slot in derivative.slots]
    with np.errstate(all="ignore"):
        for find in (_find_multiplied, _find_lost_nan):
            fault = find(derivative, places)
            if fault is not None:
                yield fault
        fault = find_fault_far_out(derivative, wide)
        if fault is not None:
            yield fault


def _find_multiplied(derivative: Derivative, places: list[Place]) -> tuple[Sample, str] | None:
    """Return a fault if an infinite `out_grad` gives an unused element a non-finite gradient."""
    forward = derivative.forward
    if any(isinstance(value, float) and value == 0 for value in forward.attrs.values()):
        return None  # the gradient may be multiplied by an attribute that is 0
    usual, extreme = derivative.gradients(forward), derivative.gradients(forward, np.inf)
    if usual is None or extreme is None:
        return None
    still = [place for place in places if _is_still(derivative, place)]
    for place in still:
        if all(other in still for other in places if other.slot == place.slot):
            continue  # it is multiplied by 0 as a whole
        got = _at(extreme, place)
        if np.isfinite(got) or _at(usual, place) != 0:
            continue
        if not derivative.is_affine(place.slot):  # whose factors are 0, as in padding
            return forward, (
                f"the gradient of {place} under an infinite out_grad must be 0, since no output "
                f"depends on it, got {got}; select, where it multiplies by 0"
            )
    return None


def _is_still(derivative: Derivative, place: Place) -> bool:
    """Return whether a small change of one number leaves all outputs unchanged."""
    forward = derivative.forward
    number = number_at(forward, place)
    step = _STEP * max(1.0, abs(number))
    plain = derivative.outputs(forward)
    moved = [derivative.outputs(with_number(forward, place, number + s)) for s in (step, -step)]
    return plain is not None and all(
        each is not None and equal_bytes(plain, each) for each in moved
    )


def _find_lost_nan(derivative: Derivative, places: list[Place]) -> tuple[Sample, str] | None:
    """Return a fault if a NaN reaches an output, but its element has a gradient of 0."""
    if derivative.forward.flat_at_nan:
        return None
    usual = derivative.gradients(derivative.forward)
    for place in places if usual is not None else ():
        if usual is None or _at(usual, place) == 0:
            continue
        changed = with_number(derivative.forward, place, np.nan)
        outputs, gradients = derivative.outputs(changed), derivative.gradients(changed)
        if outputs is None or gradients is None or _at(gradients, place) != 0:
            continue
        if any(np.isnan(widen(a)).any() for arrays in outputs.values() for a in arrays):
            return changed, (
                f"the gradient of {place} = nan, which reaches an output, must not be 0, got 0; "
                "compare so that NaN propagates, or say why in draw.flat_at_nan (opwright.samples)"
            )
    return None


def _at(gradients: dict[str, list[np.ndarray]], place: Place) -> float:
    return float(gradients[place.slot][place.item][place.at])
