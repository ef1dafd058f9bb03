"""Annexes contain the objects that the package of their topic requires, such as rows of ONNX."""

from __future__ import annotations

from collections.abc import Iterator

from opwright.errors import MissingRequirementError, PluginError
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import PackageSubject
from opwright_kit.testing.samples.sample import Sample

RULE = "annexes"
SUMMARY = "annexes contain the objects that the readers of their topic require"
SUBJECT = PackageSubject

_TOPIC = "check"
"""The topic of functions that check the annexes of a topic: they receive an annex, and a function
that draws samples."""


def concerns(subject: PackageSubject) -> bool:
    """Return whether the package has annexes."""
    return any(record.annexes for record in subject.records)


def check(subject: PackageSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the findings of the annex functions."""
    annexes = context.context.annexes
    names = [(a.topic, a.subject) for record in subject.records for a in record.annexes]
    checked = [name for name in names if annexes.find(_TOPIC, name[0]) is not None]
    if not checked:
        topics = ", ".join(sorted({topic for topic, _ in names}))
        raise Skipped(f"no installed package checks annexes of these topics: {topics}")

    def draw(op_type: str) -> Iterator[Sample]:
        definition = context.context.ops.get(op_type)
        dtypes = context.operator_dtypes(op_type)
        for dtype in ["float32"] if "float32" in dtypes else dtypes[:1]:
            context.note(f"samples of {op_type} for an annex")
            yield from context.samples(definition, dtype)

    for topic, name in checked:
        try:
            function = annexes.get(_TOPIC, topic).load()
        except (MissingRequirementError, PluginError) as error:
            raise Skipped(" ".join(str(error).split())) from error
        context.note(f"the annex {topic}[{name}]")
        for fault in function(annexes.get(topic, name).load(), draw):
            yield Finding(RULE, subject.name, f"{topic}[{name}]: {fault}")
