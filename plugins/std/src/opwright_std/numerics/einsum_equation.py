"""The equations of einsum: terms of labels, parsed and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from string import ascii_letters
from typing import NamedTuple, TypeAlias

Labels: TypeAlias = tuple[str, ...]
"""A label for each axis: a letter, or a number counted from the end for axes of the ellipsis."""


class EquationError(ValueError):
    """Raised if an equation is invalid, or does not fit the operands."""


class Equation(NamedTuple):
    """The labels of all axes of the operands and of the output."""

    operands: tuple[Labels, ...]
    out: Labels


def as_text(labels: Sequence[str]) -> str:
    """Return these labels as a term of an equation."""
    letters = [label for label in labels if not label.isdigit()]
    first = next((i for i, label in enumerate(labels) if label.isdigit()), None)
    if first is not None:
        letters.insert(first, "...")
    return "".join(letters)


def parse(equation: str, ranks: Sequence[int]) -> Equation:
    """Return the labels of an equation for operands of these ranks.

    Raises
    ------
    EquationError
        If the equation is malformed, or the rank of an operand differs from its term.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise EquationError(
            f"equation must have a term for each of {len(ranks)} operands, got {len(terms)} in "
            f"{equation!r}"
        )
    operands = tuple(
        _expand(term, rank, i, equation) for i, (term, rank) in enumerate(zip(terms, ranks))
    )
    dots = max((sum(label.isdigit() for label in labels) for labels in operands), default=0)
    broadcast = tuple(str(i) for i in reversed(range(dots)))
    if not arrow:
        counts = Counter(label for labels in operands for label in labels if not label.isdigit())
        return Equation(
            operands, (*broadcast, *sorted(label for label, n in counts.items() if n == 1))
        )
    return Equation(operands, _output(right, operands, broadcast, equation))


def _expand(term: str, rank: int, i: int, equation: str) -> Labels:
    """Return the label of each axis of operand `i`."""
    before, dots, after = _split(term, equation)
    n_dots = rank - len(before) - len(after)
    if n_dots < 0 or (n_dots and not dots):
        wanted = f"{len(before) + len(after)}{' or more' if dots else ''}"
        raise EquationError(
            f"operand {i} must have {wanted} axes, one for each label of {term!r} in "
            f"{equation!r}, got {rank}"
        )
    return (*before, *(str(k) for k in reversed(range(n_dots))), *after)


def _split(term: str, equation: str) -> tuple[str, str, str]:
    before, dots, after = term.partition("...")
    for letter in before + after:
        if letter not in ascii_letters:
            raise EquationError(
                f"equation must have letters, '...', ',' and one '->', got {letter!r} in "
                f"{equation!r}"
            )
    return before, dots, after


def _output(term: str, operands: tuple[Labels, ...], broadcast: Labels, equation: str) -> Labels:
    before, dots, after = _split(term, equation)
    known = {label for labels in operands for label in labels}
    for letter in before + after:
        if letter not in known:
            raise EquationError(
                f"each label of the output must occur in an operand, got {letter!r} in {equation!r}"
            )
    repeated = [letter for letter, n in Counter(before + after).items() if n > 1]
    if repeated:
        raise EquationError(
            f"a label must occur once in the output, got {repeated[0]!r} twice in {equation!r}"
        )
    return (*before, *(broadcast if dots else ()), *after)
