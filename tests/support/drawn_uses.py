"""Draws random uses of an operator, as the kit does to check packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import opwright as ow
from opwright.plugin import Package
from opwright_kit.testing import check_package
from opwright_kit.testing.check.provided import Use

ACME = Package("acme", "opwright-acme", "1.0")


def uses_of(op_type: str) -> list[Use]:
    """Return the uses that the kit draws for an operator."""
    drawn: list[Use] = []
    context = ow.Context.discover()

    def look(op_type: str, uses: Iterable[Use]) -> Iterator[Any]:
        drawn.extend(uses)
        return iter(())

    context.annexes.add("rule", "look", look, ACME)
    check_package("opwright-std", subject=op_type, rules=["look"], context=context)
    return drawn
