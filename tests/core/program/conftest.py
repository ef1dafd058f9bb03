"""Every test here runs in a Context with the toy operators only."""

from __future__ import annotations

import pytest

from opwright import context_guard


@pytest.fixture(autouse=True)
def context(toy):
    """A fresh Context for every test."""
    with context_guard(toy.context()) as made:
        yield made
