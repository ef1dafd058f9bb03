"""Every test here runs in a Context that holds the toy operators and nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from opwright.context import context_guard


@pytest.fixture(scope="session")
def toy():
    """The module of toy operators, which no package holds."""
    path = Path(__file__).parent.parent / "toy_operators.py"
    spec = importlib.util.spec_from_file_location("toy_operators", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def context(toy):
    """A fresh Context for every test."""
    with context_guard(toy.context()) as made:
        yield made
