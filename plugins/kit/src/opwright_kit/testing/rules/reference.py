"""The results of a kernel agree with a reference kernel, in float64 if possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry, Refuse
from opwright.op import is_float
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.failures import reason_of
from opwright_kit.testing.observation.observation import find_on
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.sample import (
    Array,
    Sample,
    differ,
    find_first,
    meta_of,
    widen,
)

RULE = "reference"
SUMMARY = "kernels agree with a reference, for all drawn shapes, dtypes and attributes"
SUBJECT = KernelSubject

_ULPS: Final = 16
"""Rounding errors by which a kernel may exceed the reference, for each sum of terms."""

EPSILON: Final = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}

_LEAST: Final = {"float16": 2.0**-24, "bfloat16": 2.0**-133}
"""The distance of the numbers next to 0, in dtypes where it is not negligible."""


class Expected(NamedTuple):
    """Outputs by slot, the kernel that computed them, and the operator's declared tolerance.

    The tolerance is relative to the largest number; it is 0 if only rounding is allowed.
    """

    outputs: Mapping[str, Sequence[Array]]
    whose: str
    declared: float = 0.0


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the samples on which a kernel differs from its reference."""
    n_compared = n_run = 0
    for entry, sample in context.launches(subject.entries):
        try:
            run = context.run(entry, sample)
        except (Refuse, OpwrightError):
            continue  # other rules report it
        n_run += 1
        expected = find_expected(entry, sample, context)
        fault = None
        if expected is not None:
            n_compared += 1
            fault = find_fault(run.outputs, expected, sample)
        if fault is None and entry.strided:
            compact = Expected(run.outputs, "itself on the same inputs without gaps")
            apart = context.run(entry, sample, strided=True)
            fault = find_fault(apart.outputs, compact, sample)
        if fault is None:
            fault = _find_fault_of_packed(entry, sample, run.outputs, context)
        if fault is not None:
            yield find_on(RULE, subject, sample, fault)
    if not n_run:
        raise Skipped("the kernel computed none of the samples")
    if not n_compared:
        raise Skipped("there is no other kernel of this operator, nor one of a wider dtype")


def find_expected(entry: KernelEntry, sample: Sample, context: CheckContext) -> Expected | None:
    """Return the outputs of a reference, or of this kernel in a wider dtype; None if both fail."""
    wide = context.widen(sample)
    for candidate in filter(None, (wide, sample)):
        for other in context.references(entry.op_type, candidate.dtype, entry):
            outputs = context.compute([other], candidate)
            if outputs is not None:
                whose = f"{other.library} in {candidate.dtype}"
                return Expected(outputs, whose, sample.tolerance[0])
    for candidate in filter(None, (wide, context.widen(sample, "float32"))):
        own = [
            e
            for e in context.context.kernels.candidates(
                entry.op_type, entry.device, candidate.dtype
            )
            if e.library == entry.library
        ]
        outputs = context.compute(own, candidate)
        if outputs is not None:
            return Expected(outputs, f"itself in {candidate.dtype}")
    return None


def _find_fault_of_packed(
    entry: KernelEntry,
    sample: Sample,
    outputs: Mapping[str, Sequence[Array]],
    context: CheckContext,
) -> str | None:
    """Return the fault of a kernel that packs inputs, or None if it is correct or does not pack.

    The kernel packs in the first run, reuses the packed copy in the second, and repacks in the
    third, after the parameters are set.
    """
    try:
        launch = context.launch(entry, sample, packed=True)
    except (Refuse, OpwrightError):
        return None
    turned = sample.turned_inputs()
    try:
        of_turned = context.launch(entry, sample).run(inputs=turned).outputs
        runs = [(sample.inputs, outputs), (sample.inputs, outputs), (turned, of_turned)]
    except OpwrightError:
        runs = [(sample.inputs, outputs)] * 2  # reversed inputs are not valid any more
    names = ", ".join(launch.packed)
    moments = ("packed", "reused as packed", "repacked after it was set")
    for (inputs, reference), moment in zip(runs, moments, strict=False):
        try:
            got = launch.run(inputs=inputs).outputs
        except OpwrightError as error:
            return f"where {names} is {moment} it must compute the same, got {reason_of(error)}"
        expected = Expected(reference, "itself on arrays that are not packed")
        fault = find_fault(got, expected, sample)
        if fault is not None:
            return f"where {names} is {moment}, {fault}"
    return None


def find_fault(
    outputs: Mapping[str, Sequence[Array]], expected: Expected, sample: Sample
) -> str | None:
    """Return how outputs differ from the expected outputs, or None if they match."""
    largest = _largest_input(sample)
    for slot, arrays in outputs.items():
        for array, reference in zip(arrays, expected.outputs[slot], strict=True):
            if array.shape != reference.shape:
                return (
                    f"{slot} has the shape {list(array.shape)}, {list(reference.shape)} "
                    f"by {expected.whose}"
                )
            place = _find_difference(array, reference, sample, largest, expected.declared)
            if place is not None:
                limit = f", further apart than declared, {expected.declared:g}"
                return (
                    f"{slot}{list(place)} is {array[place]}, {reference[place]} by "
                    f"{expected.whose}{limit if expected.declared else ''}"
                )
    return None


def _find_difference(
    array: Array, reference: Array, sample: Sample, largest: float, declared: float
) -> tuple[int, ...] | None:
    """Return the index of the first difference above the tolerance, or None."""
    dtype = meta_of(array).dtype
    if not is_float(dtype):
        return find_first(differ(array, reference))
    with np.errstate(all="ignore"):
        rounded = widen(np.asarray(reference).astype(array.dtype))  # too large is infinite there
        got = widen(array)
        finite = rounded[np.isfinite(rounded)]
        scale = max(largest, float(np.max(np.abs(finite), initial=0.0)))
        tolerance = max(_tolerance(dtype, sample, array), declared)
        allowed = tolerance * np.maximum(scale, np.abs(rounded))
        apart = np.abs(got - rounded) > np.maximum(allowed, _LEAST.get(dtype, 0.0))
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        same |= np.isinf(got) & (np.abs(rounded) > _overflows_above(dtype))
    return find_first((apart | (np.isfinite(got) != np.isfinite(rounded))) & ~same)


def _overflows_above(dtype: str) -> float:
    """Return the number above which infinity is accepted: a product of three may overflow.

    Only float16 has such a small range that products of three drawn numbers can overflow.
    """
    return 1000.0 if dtype == "float16" else np.inf


def _tolerance(dtype: str, sample: Sample, array: Array) -> float:
    """Return ``ulps * eps * sqrt(terms)``; the shapes determine `terms`, the length of a sum."""
    sizes = [a.size for arrays in sample.inputs.values() for a in arrays]
    dims = [dim for arrays in sample.inputs.values() for a in arrays for dim in a.shape]
    terms = max([1, *dims, max(sizes, default=1) // max(array.size, 1)])
    # A narrower intermediate dtype causes the rounding errors of an output of that dtype.
    eps = max(EPSILON[dtype], EPSILON.get(sample.dtype, 0.0))
    return _ULPS * eps * float(np.sqrt(terms))


def _largest_input(sample: Sample) -> float:
    largest = 0.0
    for arrays in sample.inputs.values():
        for array in arrays:
            if is_float(meta_of(array).dtype):
                numbers: Any = widen(array)
                largest = max(largest, float(np.max(np.abs(numbers), initial=0.0)))
    return largest
