"""Errors of an operator help: they begin with its name, and say what they got.

The shape rule refuses shapes and dtypes; a kernel refuses values, while it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from opwright.definition import OpDefinition
from opwright.dtypes import DTYPES
from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright.meta import Meta
from opwright.registry import KernelEntry
from opwright.testing.bad_values import BadValue, find_bad_values, find_position_slots
from opwright.testing.context import CheckContext
from opwright.testing.failing import find_failure, reason_of
from opwright.testing.observing import find_on
from opwright.testing.sample import Sample, SlotMetas
from opwright.testing.scorecard import Finding, Skipped
from opwright.testing.subjects import KernelSubject, OperatorSubject

RULE = "error-texts"
SUMMARY = "errors about wrong inputs, and positions outside, say what is wrong and what was given"
SUBJECT = (OperatorSubject, KernelSubject)

_WRAPPED = "infer_shape must accept the inputs or say why not"
"""What core says around an error that is none of opwright's."""


def concerns(subject: OperatorSubject | KernelSubject) -> bool:
    """Tell whether there is anything to refuse: of kernels, those that are given positions."""
    if isinstance(subject, OperatorSubject):
        return True
    return bool(find_position_slots(subject.definition, subject.context))


def check(subject: OperatorSubject | KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each wrong input that is let through, or refused in words that do not help."""
    if isinstance(subject, OperatorSubject):
        yield from _check_shape_rule(subject, context)
    else:
        yield from _check_kernels(subject, context)


def _check_kernels(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    slots = find_position_slots(subject.definition, subject.context)
    n_run = 0
    seen: set[tuple[str, bool]] = set()
    for entry, sample in context.launches(subject.entries[:1]):
        if find_failure(entry, sample, context) is not None:
            continue
        for what, bad in find_bad_values(sample, slots):
            if what in seen:
                continue
            try:
                message = _try(entry, bad, context)
            except Refuse:
                continue
            seen.add(what)
            n_run += 1
            if message is not None:
                yield find_on(RULE, subject, bad.sample, message)
    if not n_run:
        raise Skipped("no sample holds a position")


def _try(entry: KernelEntry, bad: BadValue, context: CheckContext) -> str | None:
    """Return what is wrong with how a kernel takes a bad value, None where nothing is."""
    try:
        run = context.run(entry, bad.sample)
    except OpwrightError as error:
        return _find_fault_of_value(entry.op_type, bad, error)
    if run.broken_guards or run.changed:
        where = ", ".join((*run.broken_guards, *run.changed))
        return f"{bad.slot}={bad.value} must be refused, got a write to {where}; check the range"
    if bad.must_be_refused(entry, context):
        return f"{bad.slot}={bad.value} must be refused, got a result; check the range first"
    return None


def _find_fault_of_value(op_type: str, bad: BadValue, error: OpwrightError) -> str | None:
    said = reason_of(error).partition("; inputs: ")[0]
    shown = repr(said[-200:])
    # A device may tell at the end of a plan, and a gradient by the name that the user has written.
    forward = bad.sample.forward
    if (op_type if forward is None else forward.op_type) not in str(error):
        return f"the error for {bad.slot}={bad.value} must name the operator, got {shown}"
    if not re.search(rf"\bgot {bad.value}(?!\d)", said):
        return (
            f"the error for {bad.slot}={bad.value} must say what it got, got {shown}; "
            "add 'got' and the value"
        )
    if not re.search(rf"\b{re.escape(bad.slot)}\b.* must ", said):
        return (
            f"the error for {bad.slot}={bad.value} must say what {bad.slot} must be, got {shown}; "
            "add the range"
        )
    return None


def _check_shape_rule(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    definition = subject.definition
    sample = _find_sample(definition, context)
    counts = sample.output_counts(definition)
    told: set[str] = set()
    for what, metas in _wrong(definition, sample.input_metas(definition)):
        try:
            definition.infer(metas, sample.attrs, counts)
        except OpwrightError as error:
            fault = _find_fault(definition.op_type, str(error))
        else:
            continue
        if fault is not None and fault not in told:
            told.add(fault)
            yield Finding(RULE, subject.name, f"{subject.name}: {fault}", what)


def _find_sample(definition: OpDefinition, context: CheckContext) -> Sample:
    proto = definition.proto
    slot = proto.input_slots.get(proto.dispatch_slot)
    attr = proto.attr_protos.get(proto.dispatch_slot)
    allowed = (slot.dtypes if slot else attr.allowed if attr else ()) or DTYPES
    for dtype in sorted(allowed, key=lambda name: name != "float32")[:4]:
        for sample in context.samples(definition, str(dtype)):
            if any(sample.inputs.values()):
                return sample
    raise Skipped("no inputs could be drawn; a package says which: opwright.samples")


def _wrong(definition: OpDefinition, metas: SlotMetas) -> Iterator[tuple[str, SlotMetas]]:
    """Give inputs of which one has another rank, another length, or another dtype."""
    for i, slot in enumerate(definition.proto.inputs):
        for k, meta in enumerate(metas[i]):
            for other in _others(meta):
                listed = (*metas[i][:k], other, *metas[i][k + 1 :])
                yield f"{slot.name} {other}", (*metas[:i], listed, *metas[i + 1 :])


def _others(meta: Meta) -> Iterator[Meta]:
    shape = meta.shape
    yield Meta((*shape, 2), meta.dtype)
    yield Meta((5, 3, *shape), meta.dtype)
    yield Meta((), meta.dtype)
    if shape:
        yield Meta(shape[1:], meta.dtype)
        yield Meta((*shape[:-1], shape[-1] + 1), meta.dtype)
        yield Meta((shape[0] + 1, *shape[1:]), meta.dtype)
        yield Meta((0, *shape[1:]), meta.dtype)
        yield Meta((*shape[:-1], 0), meta.dtype)
    for dtype in DTYPES:
        if dtype != meta.dtype:
            yield Meta(shape, dtype)


def _find_fault(op_type: str, text: str) -> str | None:
    """Return what is wrong with an error text, None where nothing is."""
    shown = repr(" ".join(text.split())[:200])
    if _WRAPPED in text:
        return f"infer_shape must say what is wrong itself, got {shown}; call ctx.require first"
    if not text.startswith(op_type):
        return f"an error must begin with the operator's name, got {shown}; call ctx.fail"
    if "got " not in text:
        return f"an error must say what it got, got {shown}; add 'got' and the value"
    return None
