"""Errors of an operator help: they begin with its name, and say what they got."""

from __future__ import annotations

from collections.abc import Iterator

from opwright.definition import OpDefinition
from opwright.dtypes import DTYPES
from opwright.errors import OpwrightError
from opwright.meta import Meta
from opwright.testing.context import CheckContext
from opwright.testing.sample import Sample, SlotMetas
from opwright.testing.scorecard import Finding, Skipped
from opwright.testing.subjects import OperatorSubject

RULE = "error-texts"
SUMMARY = "errors about wrong inputs name the operator, the rule that is broken and what was given"
SUBJECT = OperatorSubject

_WRAPPED = "infer_shape must accept the inputs or say why not"
"""What core says around an error that is none of opwright's."""


def check(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each wrong input at which the shape rule raises an error that helps nobody."""
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
