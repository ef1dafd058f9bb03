"""Provides a small program, and modules for tests of saved files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from opwright import context_guard


@pytest.fixture(autouse=True)
def context(toy):
    """A fresh Context for every test."""
    with context_guard(toy.context()) as made:
        yield made


@pytest.fixture(scope="session")
def model():
    """The module that builds the saved model; child processes also import it."""
    return _load_module("saved_model")


@pytest.fixture(scope="session")
def disks():
    """The module that records and replays file operations."""
    return _load_module("file_operations")


@pytest.fixture(scope="session")
def campaigns():
    """The module that kills savers while readers run."""
    return _load_module("kill_campaign")


def _load_module(name):
    path = Path(__file__).parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
