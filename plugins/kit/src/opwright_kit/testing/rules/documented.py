"""An operator, its slots and its attributes have meaningful comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from opwright.plugin import hint
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import KernelSubject, OperatorSubject

RULE = "documented"
SUMMARY = "the operator, its slots and its attributes each have a meaningful comment"
SUBJECT = (OperatorSubject, KernelSubject)

_LEAST_WORDS: Final = 3
"""The minimum number of words in an operator's comment, which is its formula or a sentence."""

_LEFT_OPEN: Final = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|T[B]D)\b")


def check(subject: OperatorSubject | KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each slot or attribute whose comment is missing or empty."""
    if isinstance(subject, KernelSubject):
        yield from _check_operator_of(subject)
        return
    proto = subject.definition.proto
    short = subject.name.rpartition(".")[2]
    fault = _find_fault(short, proto.comment, _LEAST_WORDS)
    if fault:
        yield _finding(subject.name, "the operator", fault, "add_comment with the formula")
    for kind, items in (
        ("input", proto.inputs),
        ("output", proto.outputs),
        ("attribute", proto.attrs),
    ):
        for item in items:
            fault = _find_fault(item.name, item.comment, 1)
            if fault:
                advice = "its meaning" if kind == "attribute" else "its shape and meaning"
                yield _finding(subject.name, f"{kind} {item.name!r}", fault, f"say {advice}")


def _check_operator_of(subject: KernelSubject) -> Iterator[Finding]:
    """A kernel of an operator that no plugin provides is never used."""
    if subject.context.ops.find(subject.op_type) is None:
        near = hint(subject.op_type, subject.context.ops.types(all=True), "operators")
        message = f"{subject.name}: no plugin provides this operator, got {subject.op_type!r}{near}"
        yield Finding(RULE, subject.name, message)


def _find_fault(name: str, comment: str, least_words: int) -> str | None:
    """Return the fault of a comment, or None."""
    words = re.findall(r"[\w']+", comment)
    if not words:
        return "none"
    if _LEFT_OPEN.search(comment):
        return f"one that is left open: {comment!r}"
    content = [word for word in words if word.lower() not in _words_of(name)]
    if not content:
        return f"one that repeats the name: {comment!r}"
    return None if len(words) >= least_words else f"one too short: {comment!r}"


def _words_of(name: str) -> set[str]:
    return {name.lower(), *name.lower().split("_")}


def _finding(op_type: str, what: str, fault: str, advice: str) -> Finding:
    return Finding(RULE, op_type, f"{op_type}: {what} needs a comment, got {fault}; {advice}")
