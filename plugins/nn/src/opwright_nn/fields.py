"""Rules for the saved fields of a training run: their names, types and ranges.

A rule is a function that takes the location of a value and the value, and returns the value, or
raises FormatError. `reading` adds the file and a fix to the message.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

from opwright.errors import FormatError

Rule = Callable[[str, object], Any]

MAX_COUNT: Final = 1 << 53
"""The largest count that float64 represents exactly; a history stores counts as float64."""

_SHOWN: Final = 60


@contextlib.contextmanager
def reading(file: object, fix: str) -> Iterator[None]:
    """In a with block, prefix the messages of rules with a file, and append a fix."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{file}: {error}; {fix}") from error.__cause__


def refuse(where: str, rule: str, value: object) -> NoReturn:
    """Raise FormatError with the rule that a value violates."""
    raise FormatError(f"{where} must be {rule}, got {_show(value)}")


def _show(value: object) -> str:
    if isinstance(value, int) and abs(value) > 10**_SHOWN:  # Python limits digits in strings
        return f"an int of {value.bit_length()} bits"
    text = ascii(value)
    return f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text


def whole(at_least: int = 0, at_most: int = MAX_COUNT) -> Rule:
    """Return the rule for an int in a range."""

    def check(where: str, value: object) -> int:
        if type(value) is not int or not at_least <= value <= at_most:
            limit = f"[{at_least}, {at_most}]" if at_most <= MAX_COUNT else f"[{at_least}, ...)"
            refuse(where, f"an int in {limit}", value)
        return value

    return check


def real(where: str, value: object) -> float:
    """Return a finite number of at least 0."""
    if type(value) is int and 0 <= value <= MAX_COUNT:
        return float(value)
    if type(value) is not float or not 0 <= value < math.inf:
        refuse(where, "a finite number of at least 0", value)
    return value


def bits(where: str, value: object) -> float:
    """Return a number written by ``float.hex``, which is used since JSON lacks infinity and NaN."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            return float.fromhex(value)
    refuse(where, "a number as float.hex writes it", value)


def text(where: str, value: object) -> str:
    """Return text."""
    if not isinstance(value, str):
        refuse(where, "text", value)
    return value


def flag(where: str, value: object) -> bool:
    """Return True or False."""
    if type(value) is not bool:
        refuse(where, "true or false", value)
    return value


def anything(where: str, value: object) -> Any:
    """Return any value unchanged; other code checks it."""
    return value


def optional(rule: Rule) -> Rule:
    """Return the rule for a value that may be None."""
    return lambda where, value: None if value is None else rule(where, value)


def listed(rule: Rule, length: int | None = None) -> Rule:
    """Return the rule for a list, which also checks its length if `length` is given."""

    def check(where: str, value: object) -> list[Any]:
        if not isinstance(value, list) or (length is not None and len(value) != length):
            refuse(where, "a list" if length is None else f"a list of {length}", value)
        return [rule(f"{where}[{index}]", item) for index, item in enumerate(value)]

    return check


def named(rule: Rule) -> Rule:
    """Return the rule for a mapping whose values all have the same rule."""

    def check(where: str, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            refuse(where, "a mapping", value)
        return {name: rule(f"{where}.{name}", item) for name, item in value.items()}

    return check


def fields(rules: Mapping[str, Rule]) -> Rule:
    """Return the rule for a mapping with exactly these fields."""

    def check(where: str, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            refuse(where, "a mapping", value)
        for name in rules:
            if name not in value:
                refuse(where, f"a mapping with {name!r}", sorted(value))
        for name in value:
            if name not in rules:
                refuse(where, f"a mapping without {ascii(name)[:_SHOWN]}", sorted(value))
        return {name: rules[name](f"{where}.{name}", item) for name, item in value.items()}

    return check
