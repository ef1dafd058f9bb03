"""Everything about an operator that a user meets is said: it, its slots, its attributes."""

from __future__ import annotations

from collections.abc import Iterator

from opwright.testing.context import CheckContext
from opwright.testing.scorecard import Finding
from opwright.testing.subjects import OperatorSubject

RULE = "documented"
SUMMARY = "the operator, its slots and its attributes each have a comment"
SUBJECT = OperatorSubject


def check(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each thing without a comment."""
    proto = subject.definition.proto
    if not proto.comment.strip():
        yield Finding(RULE, subject.name, f"{subject.name}: needs a comment, got none; add_comment")
    for kind, items in (
        ("input", proto.inputs),
        ("output", proto.outputs),
        ("attribute", proto.attrs),
    ):
        for item in items:
            if not item.comment.strip():
                yield Finding(
                    RULE,
                    subject.name,
                    f"{subject.name}: {kind} {item.name!r} needs a comment, got none; say it",
                )
