"""The rules of the kit, one module each, and how they are loaded.

A rule's module has

- ``RULE``: its name, kebab-case;
- ``SUMMARY``: one line that states the requirement;
- ``SUBJECT``: the class of its subjects, `PackageSubject`, `OperatorSubject`, `PassSubject` or
  `KernelSubject` of `opwright_kit.testing.results.subjects`;
- ``concerns(subject)``, optional: false for subjects to which it does not apply;
- ``FIRST = True``, optional: it runs before all other rules;
- ``check(subject, context)``: yields a `Finding` for each fault, and raises `Skipped` with a reason
  if there is nothing to check. `context` is a `CheckContext`.

Any other exception is a finding, too: the subject raised it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from opwright.errors import CommandError, OpwrightError
from opwright.plugin import hint
from opwright_kit.testing.results.scorecard import Finding


class Check(Protocol):
    """The function ``check`` of a rule's module."""

    def __call__(self, subject: Any, context: Any, /) -> Iterator[Finding]:
        """Yield the faults of the subject."""


def _concerns_all(subject: Any) -> bool:
    return True


class Rule(NamedTuple):
    """One rule.

    Attributes
    ----------
    name, summary : str
    subject : type
        Class of its subjects.
    check : callable
    concerns : callable
        Returns whether the rule applies to such a subject.
    first : bool
        Whether it runs before all other rules.
    """

    name: str
    summary: str
    subject: type
    check: Check
    concerns: Callable[[Any], bool] = _concerns_all
    first: bool = False

    def asks(self, subject: Any) -> bool:
        """Return whether the rule applies to a subject, or true if the subject cannot be loaded."""
        try:
            return isinstance(subject, self.subject) and self.concerns(subject)
        except OpwrightError:
            return True


def load_rules() -> tuple[Rule, ...]:
    """Return every rule, by name."""
    rules = [_load(module.name) for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(rules, key=lambda rule: rule.name))


def _load(name: str) -> Rule:
    module = importlib.import_module(f"{__name__}.{name}")
    concerns = getattr(module, "concerns", _concerns_all)
    first = getattr(module, "FIRST", False)
    return Rule(module.RULE, module.SUMMARY, module.SUBJECT, module.check, concerns, first)


def select_rules(names: tuple[str, ...] = (), provided: Iterable[Rule] = ()) -> tuple[Rule, ...]:
    """Return the rules of these names, by default all, in the order of the check.

    Rules `provided` by other packages come after the rules of the kit.

    Raises
    ------
    CommandError
        For an unknown name, with the nearest one.
    """
    rules = (*load_rules(), *provided)
    known = [rule.name for rule in rules]
    for name in names:
        if name not in known:
            raise CommandError(f"check: unknown rule, got {name!r}{hint(name, known, 'rules')}")
    selection = [rule for rule in rules if not names or rule.name in names]
    return tuple(sorted(selection, key=lambda rule: not rule.first))
