"""The rules of the kit, one module each, and how they are found.

A rule's module has

- ``RULE``: its name, kebab-case;
- ``SUMMARY``: one line, what it demands;
- ``SUBJECT``: the class that it is asked about, `PackageSubject`, `OperatorSubject` or
  `KernelSubject` of `opwright.testing.subjects`;
- ``check(subject, context)``: yields a `Finding` for each thing that is wrong, and raises `Skipped`
  with a reason where there is nothing to check. `context` is a `CheckContext`.

An exception of any other kind is a finding too: the rule's subject raised it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from opwright.errors import CommandError
from opwright.names import hint
from opwright.testing.scorecard import Finding


class Check(Protocol):
    """What a rule's module does."""

    def __call__(self, subject: Any, context: Any, /) -> Iterator[Finding]:
        """Yield what is wrong with the subject."""


class Rule(NamedTuple):
    """One rule.

    Attributes
    ----------
    name, summary : str
    subject : type
        Class of what it is asked about.
    check : callable
    """

    name: str
    summary: str
    subject: type
    check: Check


def load_rules() -> tuple[Rule, ...]:
    """Return every rule, by name."""
    found = [_load(module.name) for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found))


def _load(name: str) -> Rule:
    module = importlib.import_module(f"{__name__}.{name}")
    return Rule(module.RULE, module.SUMMARY, module.SUBJECT, module.check)


def select_rules(names: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """Return the rules of these names, all where none is given.

    Raises
    ------
    CommandError
        For an unknown name, with the nearest one.
    """
    rules = load_rules()
    known = [rule.name for rule in rules]
    for name in names:
        if name not in known:
            raise CommandError(f"check: unknown rule, got {name!r}{hint(name, known, 'rules')}")
    return tuple(rule for rule in rules if not names or rule.name in names)
