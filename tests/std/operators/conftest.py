"""Makes this folder importable, as in ``from case import Case``, and defines a fixture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import opwright as ow
from opwright.plugin import Package

sys.path.insert(0, str(Path(__file__).parent))

PACKAGE = Package("test", "opwright-test", "1")


@pytest.fixture
def add():
    """Return a function that adds operators, by type, to a context with all plugins."""
    with ow.context_guard(ow.Context.discover()) as context:

        def register(**definitions):
            for name, definition in definitions.items():
                hidden = definition.plan_only
                context.ops.add(f"test.{name}", definition, PACKAGE, hidden=hidden)

        yield register
