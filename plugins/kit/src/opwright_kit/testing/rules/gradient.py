"""The gradient by ``append_backward`` is the gradient of a loss that weighs every output.

The loss is ``sum(weight * out)`` with random weights, since a plain sum would hide errors: the
gradient of sum(softmax), for example, is zero. Gradients are compared with central differences in
float64, taken with two step sizes; elements for which these disagree are at a kink, and are
skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from opwright import context_guard
from opwright.errors import KernelNotFoundError
from opwright.op import OpDefinition
from opwright_kit.testing.gradients.differences import Differences
from opwright_kit.testing.gradients.training import (
    build_training,
    compile_block,
    differentiate,
    pinned,
    skip_without_gradient,
)
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import find_on
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import OperatorSubject
from opwright_kit.testing.samples.sample import Sample, count_elements

RULE = "gradient"
SUMMARY = "gradients agree with central differences of a random-weighted loss"
SUBJECT = OperatorSubject

_MOST_PLACES: Final = 12
"""Maximum number of elements per input that are moved individually, with four runs each. Larger
inputs are also moved as a whole, in a random direction."""

_MOST_FOR_PLACES: Final = 2000
"""In samples with more input elements than this, elements are only moved together."""

_MOST_ELEMENTS: Final = 2**14
"""Samples with more input elements than this are skipped."""


def concerns(subject: OperatorSubject) -> bool:
    """Return whether a program may contain the operator, that is, whether it is not plan-only."""
    return not subject.definition.plan_only


def check(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the samples for which a gradient disagrees with central differences."""
    skip_without_gradient(subject)
    with context_guard(pinned(subject)):
        yield from _check_samples(subject, context)


def _check_samples(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    definition = subject.definition
    n_compared = 0
    for original in context.samples(definition, "float64"):
        sample = original
        if count_elements(sample) > _MOST_ELEMENTS:
            continue
        try:
            fault, n_places = _compare(definition, sample, context)
            if fault is None and not n_places:
                sample = _make_positive(sample)
                fault, n_places = _compare(definition, sample, context)
        except KernelNotFoundError as error:
            raise Skipped(f"no kernel on the host: {str(error).splitlines()[0]}") from error
        n_compared += n_places
        if fault is not None:
            yield find_on(RULE, subject, sample, fault)
    if not n_compared:
        raise Skipped("no sample in float64 has an input with a gradient")


def _make_positive(sample: Sample) -> Sample:
    """Return the sample without negative floats, for which many functions are undefined."""
    inputs = {
        slot: tuple(np.asarray(np.abs(a) + 0.25) if a.dtype.kind == "f" else a for a in arrays)
        for slot, arrays in sample.inputs.items()
    }
    return replace(sample, inputs=inputs, label=f"{sample.label}, |x| + 0.25 of its floats")


def _compare(
    definition: OpDefinition, sample: Sample, context: CheckContext
) -> tuple[str | None, int]:
    """Return the fault, and the number of compared differences."""
    context.note(f"the gradient of {definition.op_type}", sample)
    training = build_training(definition, sample, context.seed)
    if training is None:
        return None, 0
    pairs = differentiate(training)
    if not pairs:
        return None, 0
    most = _MOST_PLACES if count_elements(sample) <= _MOST_FOR_PLACES else 0
    block, feeds = training.block, training.feeds
    loss = compile_block(block, feeds, [training.loss.name])
    with np.errstate(all="ignore"):
        names = [gradient.name for _, gradient in pairs]
        gradients = compile_block(block, feeds, names)(**feeds)
        n_places = 0
        for (variable, _), gradient in zip(pairs, gradients, strict=True):
            differences = Differences(loss, feeds, variable.name, context.seed)
            fault, n_compared = differences.find_fault(gradient, most)
            n_places += n_compared
            if fault is not None:
                return fault, n_places
    return None, n_places
