"""Outputs share memory with inputs where that is declared, and only there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwright.errors import OpwrightError
from opwright.op import OpDefinition
from opwright_kit.testing.launch.kernel_run import POISON
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observed import (
    OTHER_POISON,
    Observed,
    equal_bytes,
    find_difference,
    observe,
    repeats,
)
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.sample import meta_of

RULE = "aliases"
SUMMARY = "declared aliases and reuse of memory work, and a kernel relies on no others"
SUBJECT = KernelSubject


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each sample on which shared memory changes the result, or is taken for granted."""
    for observed in observe(subject, context):
        read = _reads_output(observed)
        if read is not None:
            yield observed.find(
                RULE,
                subject,
                f"an output must be written before it is read, got a result that depends on what "
                f"{read} held before; declare which input it aliases, or read that input",
            )
        for output, given in _fitting(observed, subject.definition):
            message = _compare(observed, output, given, context)
            if message is not None:
                yield observed.find(RULE, subject, message)


def _reads_output(observed: Observed) -> str | None:
    """Return an output whose former content changes what is written, None where none does."""
    first = observed.first
    if equal_bytes(first.outputs, observed.second.outputs) or not observed.repeats():
        return None
    other = observed.launch.run(OTHER_POISON, beside=POISON)
    for slot, listed in first.outputs.items():
        for array, changed, left in zip(
            listed, other.outputs[slot], other.untouched[slot], strict=True
        ):
            if array.shape == changed.shape and _differ(array, changed, ~left):
                return slot if repeats(observed.launch, other, OTHER_POISON, POISON) else None
    return None


def _differ(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> bool:
    return bool(where.any()) and a[where].tobytes() != b[where].tobytes()


def _fitting(observed: Observed, definition: OpDefinition) -> Iterator[tuple[str, str]]:
    """Give the pairs of `may_reuse` that a plan would use: equal dtypes, and as many bytes."""
    sample = observed.sample
    counts = dict(zip(definition.output_index, sample.output_counts(definition), strict=True))
    metas = dict(zip(definition.output_index, sample.infer(definition), strict=True))
    for output, given in observed.entry.may_reuse:
        if given in observed.launch.packed:
            continue  # a plan does not write what it packs
        arrays = sample.inputs.get(given, ())
        if counts[output] == 1 and len(arrays) == 1:
            source, target = meta_of(arrays[0]), metas[output][0]
            if source.dtype == target.dtype and arrays[0].size == np.prod(target.shape, dtype=int):
                yield output, given


def _compare(observed: Observed, output: str, given: str, context: CheckContext) -> str | None:
    """Return what is wrong where an output lies in an input; None where nothing is."""
    launch = observed.find_like(context, reuse=[(output, given)])
    pair = f"may_reuse=[({output!r}, {given!r})]"
    if launch is None:
        return f"{pair} must work, got a kernel that cannot be prepared for it; take the pair back"
    try:
        shared = launch.run(POISON)
    except OpwrightError as error:
        return f"{pair} must work, got {error}; take the pair back"
    other = find_difference(shared.outputs, observed.first.outputs)
    if other is None or not observed.repeats():
        return None
    return (
        f"{pair} must change no result, got another {other} where {output} lies in {given}; read "
        "before you write, or take the pair back"
    )
