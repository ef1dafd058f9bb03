"""Attribute values outside of the declared range are refused, and valid values work in kernels.

A refusal names the operator, the attribute and the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry
from opwright.op import AttrProto
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.failures import depends_on_attributes, find_failure
from opwright_kit.testing.observation.observation import find_on
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject, OperatorSubject
from opwright_kit.testing.samples import attributes
from opwright_kit.testing.samples.gradient_samples import find_forward
from opwright_kit.testing.samples.sample import Sample

RULE = "rejects-attributes"
SUMMARY = (
    "values outside of a declared range are refused with the name of the attribute, values "
    "inside are computed"
)
SUBJECT = (OperatorSubject, KernelSubject)


def concerns(subject: OperatorSubject | KernelSubject) -> bool:
    """Return whether the subject has its own attributes; a gradient has those of its operator."""
    definition = subject.definition
    return bool(definition.proto.attrs) and (
        find_forward(definition.op_type, subject.context) is None
    )


def check(subject: OperatorSubject | KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield invalid values that are not refused by name, and valid values that fail."""
    if isinstance(subject, OperatorSubject):
        yield from _check_outside(subject)
    else:
        yield from _check_inside(subject, context)


def _check_outside(subject: OperatorSubject) -> Iterator[Finding]:
    proto = subject.definition.proto
    for attr in proto.attrs:
        for value in attributes.outside(attr):
            assignment = f"{attr.name}={value!r}"
            try:
                attr.check(proto.type, value)
            except OpwrightError as error:
                shown_value = repr(value[0] if isinstance(value, list) else value)
                missing = [w for w in (proto.type, attr.name, shown_value) if w not in str(error)]
                if missing:
                    yield Finding(
                        RULE,
                        subject.name,
                        f"{subject.name}: the error for {assignment} must name operator, "
                        f"attribute and value, got {str(error)!r} without {missing[0]}; name it",
                    )
            else:
                span = attr.describe_range() or "its type"
                yield Finding(
                    RULE,
                    subject.name,
                    f"{subject.name}: {assignment} must be refused, since it is outside of {span}, "
                    "got no error; declare the range",
                )


def _check_inside(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Run each kernel with valid attribute values that authors easily forget."""
    seen: set[tuple[str, Any]] = set()
    one = [entry for entry in subject.entries if context.dtypes(entry)][:1]
    for entry, sample in context.launches(one):
        if find_failure(entry, sample, context) is not None:
            if depends_on_attributes(entry, sample, context):
                what = "a sample whose attributes are all in their declared ranges"
                yield _fails(subject, sample, what, entry, context)
            continue
        if subject.definition.plan_only:
            continue  # passes provide inputs that match the attributes
        for attr in subject.definition.proto.attrs:
            for value in attributes.unusual(attr):
                changed = _with_attr(sample, attr, value)
                if (attr.name, value) in seen or not _accepts(changed, subject):
                    continue
                seen.add((attr.name, value))
                if find_failure(entry, changed, context) is not None:
                    span = f" {attr.describe_range()}".rstrip()
                    what = f"{attr.name}={value!r} is in the declared range{span} and"
                    yield _fails(subject, changed, what, entry, context)


def _fails(
    subject: KernelSubject, sample: Sample, what: str, entry: KernelEntry, context: CheckContext
) -> Finding:
    reason = find_failure(entry, sample, context)
    message = (
        f"{what} makes the kernel fail, got {reason}; narrow the range, or have "
        "the shape rule refuse it"
    )
    return find_on(RULE, subject, sample, message)


def _with_attr(sample: Sample, attr: AttrProto, value: Any) -> Sample:
    label = f"{attr.name}={value!r}"
    return replace(sample, attrs={**sample.attrs, attr.name: value}, label=label)


def _accepts(sample: Sample, subject: KernelSubject) -> bool:
    """Return whether OpProto and shape rule accept a sample."""
    definition = subject.definition
    try:
        attrs = definition.proto.fill_attrs(sample.attrs)
        counts = definition.output_counts(sample.input_metas(definition), attrs)
    except OpwrightError:
        counts = ()
    actual = tuple(sample.outputs.get(slot.name, 1) for slot in definition.proto.outputs)
    if any(
        slot.duplicable and i < len(counts) and counts[i] != actual[i]
        for i, slot in enumerate(definition.proto.outputs)
    ):
        return False
    try:
        definition.proto.fill_attrs(sample.attrs)
        sample.infer(definition)
    except OpwrightError:
        return False
    return True
