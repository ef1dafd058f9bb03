"""A small program, and a scope of plain arrays that stands for the runtime's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from opwright.context import context_guard


@pytest.fixture(autouse=True)
def context(toy):
    """A fresh Context for every test."""
    with context_guard(toy.context()) as made:
        yield made


@pytest.fixture(scope="session")
def model(toy):
    """The module that builds what these tests save; child processes import it, too."""
    path = Path(__file__).parent / "saved_model.py"
    spec = importlib.util.spec_from_file_location("saved_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
