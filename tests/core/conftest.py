"""The toy operators, for all tests of core."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def toy():
    """The module of toy operators, which no package holds."""
    path = Path(__file__).parent / "toy_operators.py"
    spec = importlib.util.spec_from_file_location("toy_operators", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
