"""What the tests of the kit share: the toy operators."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def toy():
    """The module of toy operators, which no package holds."""
    import toy_operators

    return toy_operators
