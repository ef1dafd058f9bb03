"""The kernel writes the shapes of ``infer_shape``, for known and for unknown dims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opwright.errors import OpwrightError, PluginError, RegistrationError
from opwright.kernel import Refuse
from opwright.op import Meta
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.failures import (
    depends_on_attributes,
    depends_on_values,
    reason_of,
    writes_input,
)
from opwright_kit.testing.observation.observation import find_on
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject, OperatorSubject
from opwright_kit.testing.samples.sample import SlotMetas, meta_of

RULE = "shape-rule"
SUMMARY = "the shape rule gives the shapes that kernels write, for known and for unknown dims"
SUBJECT = (OperatorSubject, KernelSubject)

_FAULTS: Final = (AttributeError, ImportError, NameError)
"""Errors that a faulty kernel raises for any inputs."""


def check(subject: OperatorSubject | KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield faults of the shape rule for unknown dims, and for shapes that a kernel wrote."""
    if isinstance(subject, OperatorSubject):
        yield from _check_unknown_dims(subject, context)
    else:
        yield from _check_kernels(subject, context)


def _check_unknown_dims(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    definition = subject.definition
    n_seen = 0
    for dtype in context.operator_dtypes(subject.name)[:1]:
        for sample in context.samples(definition, dtype):
            n_seen += 1
            known = sample.infer(definition)
            counts = sample.output_counts(definition)
            for unknown in _with_unknown_dims(sample.input_metas(definition)):
                try:
                    guessed = definition.infer(unknown, sample.attrs, counts)
                except OpwrightError:
                    continue  # it may query dims that it needs
                fault = _find_difference(subject, known, guessed)
                if fault is not None:
                    inputs = ", ".join(str(meta) for metas in unknown for meta in metas)
                    message = f"for {inputs} the shape rule says {fault}"
                    yield find_on(RULE, subject, sample, message)
                    break
    if not n_seen:
        raise context.lack_of_inputs(subject.name)


def _with_unknown_dims(metas: SlotMetas) -> Iterator[SlotMetas]:
    """Yield metas with all dims unknown, one axis of all inputs, and one dim of one input."""
    yield tuple(tuple(Meta((-1,) * len(m.shape), m.dtype) for m in slot) for slot in metas)
    longest = max((len(m.shape) for slot in metas for m in slot), default=0)
    for axis in range(longest):
        yield tuple(tuple(_without(m, axis) for m in slot) for slot in metas)
    for i, slot in enumerate(metas):
        for j, meta in enumerate(slot):
            for axis in range(len(meta.shape)):
                changed = (*slot[:j], _without(meta, axis), *slot[j + 1 :])
                yield (*metas[:i], changed, *metas[i + 1 :])


def _without(meta: Meta, axis: int) -> Meta:
    return Meta(tuple(-1 if i == axis else dim for i, dim in enumerate(meta.shape)), meta.dtype)


def _find_difference(subject: OperatorSubject, known: SlotMetas, guessed: SlotMetas) -> str | None:
    for slot, metas, guesses in zip(subject.definition.proto.outputs, known, guessed, strict=True):
        for meta, guess in zip(metas, guesses, strict=True):
            fits = meta.dtype == guess.dtype and len(meta.shape) == len(guess.shape)
            if not fits or any(
                b not in (a, -1) for a, b in zip(meta.shape, guess.shape, strict=True)
            ):
                return (
                    f"{slot.name} is {guess}, for known dims {meta}; a dim that it does not know "
                    "must be -1"
                )
    return None


def _check_kernels(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    reasons: set[str] = set()
    for entry, sample in context.launches(subject.entries):
        try:
            run = context.run(entry, sample)
        except Refuse:
            continue
        except OpwrightError as error:
            if depends_on_values(entry, sample, context):
                continue
            if writes_input(error) or depends_on_attributes(entry, sample, context):
                continue  # other rules are about that
            reason = reason_of(error)
            advice = "compute these inputs, or have the shape rule refuse them"
            if isinstance(error, (PluginError, RegistrationError)) or isinstance(
                error.__cause__, _FAULTS
            ):
                advice = "fix the kernel, or where it is registered"
            if reason not in reasons:
                reasons.add(reason)
                message = f"the kernel fails on what the shape rule accepts, got {reason}; {advice}"
                yield find_on(RULE, subject, sample, message)
            continue
        metas = sample.infer(subject.definition)
        for (slot, arrays), slot_metas in zip(run.outputs.items(), metas, strict=True):
            for array, meta in zip(arrays, slot_metas, strict=True):
                wrote = meta_of(array)
                if wrote.dtype != meta.dtype or not _fits(wrote, meta):
                    message = (
                        f"the shape rule says {slot} is {meta}, the kernel wrote "
                        f"{wrote}; fix the one that is wrong"
                    )
                    yield find_on(RULE, subject, sample, message)


def _fits(wrote: Meta, rule: Meta) -> bool:
    return len(wrote.shape) == len(rule.shape) and all(
        b in (a, -1) for a, b in zip(wrote.shape, rule.shape, strict=True)
    )
