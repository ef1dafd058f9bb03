"""`dir` of a package returns its public names, which editors complete."""

from __future__ import annotations

import importlib
import types
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(
    path.parent.name for path in ROOT.glob("plugins/*/src/*/__init__.py") if path.is_file()
)
NEEDED = {"opwright_jax": "jax", "opwright_onnx": "onnx", "opwright_torch": "torch"}
"""Packages whose public names require another package."""


def import_or_skip(name):
    needed = NEEDED.get(name)
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed, and the names of {name} import it")
    return importlib.import_module(name)


def public_packages(package):
    """Yield the package, and the packages among its public names, recursively."""
    yield package
    for name in package.__all__:
        value = getattr(package, name)
        names = vars(value) if isinstance(value, types.ModuleType) else {}
        if {"__path__", "__all__"} <= names.keys():  # opwright_torch.ops has all operators
            yield from public_packages(value)


@pytest.mark.parametrize("name", ["opwright", *PACKAGES])
def test_dir_of_a_package_lists_only_its_public_names(name):
    for package in public_packages(import_or_skip(name)):
        assert dir(package) == sorted(package.__all__), package.__name__
        assert len(set(package.__all__)) == len(package.__all__), package.__name__
