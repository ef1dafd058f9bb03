"""A small program, and a scope of plain arrays that stands for the runtime's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from opwright.context import context_guard

_TOY = Path(__file__).parent.parent / "toy_operators.py"


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def toy():
    """The module of toy operators, which no package holds."""
    return _load(_TOY)


@pytest.fixture(autouse=True)
def context(toy):
    """A fresh Context for every test."""
    with context_guard(toy.context()) as made:
        yield made


@pytest.fixture(scope="session")
def model(toy):
    """The module that builds what these tests save; child processes import it, too."""
    return _load(Path(__file__).parent / "saved_model.py")
