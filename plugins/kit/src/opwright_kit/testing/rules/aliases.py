"""Outputs share memory with inputs if that is declared, and only then."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwright.errors import OpwrightError
from opwright.op import OpDefinition
from opwright_kit.testing.launch.kernel_run import POISON
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import (
    OTHER_POISON,
    Observation,
    equal_bytes,
    find_difference,
    observe,
    repeats,
)
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.sample import meta_of

RULE = "aliases"
SUMMARY = "declared aliases and memory reuse work, and a kernel does not rely on undeclared aliases"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield samples whose result depends on old outputs, or changes with shared memory."""
    for observation in observe(subject, context):
        read = _reads_output(observation)
        if read is not None:
            yield observation.find(
                RULE,
                subject,
                f"an output must be written before it is read, got a result that depends on what "
                f"{read} held before; declare which input it aliases, or read that input",
            )
        for output, source in _fitting(observation, subject.definition):
            message = _compare(observation, output, source, context)
            if message is not None:
                yield observation.find(RULE, subject, message)


def _reads_output(observation: Observation) -> str | None:
    """Return an output whose previous content changes the result, or None."""
    first = observation.first
    if equal_bytes(first.outputs, observation.second.outputs) or not observation.repeats():
        return None
    other = observation.launch.run(OTHER_POISON, beside=POISON)
    for slot, arrays in first.outputs.items():
        for array, changed, untouched in zip(
            arrays, other.outputs[slot], other.untouched[slot], strict=True
        ):
            if array.shape == changed.shape and _differ(array, changed, ~untouched):
                return slot if repeats(observation.launch, other, OTHER_POISON, POISON) else None
    return None


def _differ(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> bool:
    return bool(where.any()) and a[where].tobytes() != b[where].tobytes()


def _fitting(observation: Observation, definition: OpDefinition) -> Iterator[tuple[str, str]]:
    """Yield the pairs of `may_reuse` that a plan would use, with equal dtypes and sizes."""
    sample = observation.sample
    counts = dict(zip(definition.output_index, sample.output_counts(definition), strict=True))
    metas = dict(zip(definition.output_index, sample.infer(definition), strict=True))
    for output, input_slot in observation.entry.may_reuse:
        if input_slot in observation.launch.packed:
            continue  # a plan does not write parameters that it packs
        arrays = sample.inputs.get(input_slot, ())
        if counts[output] == 1 and len(arrays) == 1:
            source, target = meta_of(arrays[0]), metas[output][0]
            if source.dtype == target.dtype and arrays[0].size == np.prod(target.shape, dtype=int):
                yield output, input_slot


def _compare(
    observation: Observation, output: str, source: str, context: CheckContext
) -> str | None:
    """Return the fault of an output that shares the memory of an input, or None."""
    launch = observation.find_like(context, reuse=[(output, source)])
    pair = f"may_reuse=[({output!r}, {source!r})]"
    if launch is None:
        return f"{pair} must work, got a kernel that cannot be prepared for it; remove the pair"
    try:
        shared = launch.run(POISON)
    except OpwrightError as error:
        return f"{pair} must work, got {error}; remove the pair"
    other = find_difference(shared.outputs, observation.first.outputs)
    if other is None or not observation.repeats():
        return None
    return (
        f"{pair} must not change results, got a different {other} if {output} is in {source}; read "
        "before you write, or remove the pair"
    )
