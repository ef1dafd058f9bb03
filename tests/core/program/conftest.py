"""Every test here runs in a Context that holds the toy operators and nothing else."""

from __future__ import annotations

import pytest

from opwright import context_guard


@pytest.fixture(autouse=True)
def context(toy):
    """A fresh Context for every test."""
    with context_guard(toy.context()) as made:
        yield made
