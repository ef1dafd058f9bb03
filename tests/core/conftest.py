"""The toy operators, and sites: folders with installed distributions; for all tests of core."""

from __future__ import annotations

import pytest

from sites import acme, libraries, site

__all__ = ["acme", "libraries", "site"]


@pytest.fixture(scope="session")
def toy():
    """The module of toy operators, which no package holds."""
    import toy_operators

    return toy_operators
