"""Every public name of the packages exists, is documented, and has a page."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest

import opwright

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs" / "site"))

from python_modules import MODULES, public_names  # noqa: E402 - in the sources of the site

ROOMS = {
    "backward",
    "cache_folder",
    "cli",
    "context",
    "describe",
    "discovery",
    "disk",
    "framework_pb2",
    "lowering",
    "messages",
    "packages",
    "program",
    "records",
    "registry",
    "run",
    "targets",
}
"""The private modules of the core; all other modules without an underscore have pages."""

NAMES = [(module, name) for module in MODULES for name in public_names(module)]


def test_every_module_of_the_core_is_private_or_has_a_page():
    core = ROOT / "core" / "src" / "opwright"
    modules = {path.stem for path in core.glob("*.py")}
    modules |= {path.parent.name for path in core.glob("*/__init__.py")}
    public = {name for name in modules if not name.startswith("_")} - ROOMS
    assert {f"opwright.{name}" for name in public} <= {*MODULES, "opwright.ops"}


def test_type_checkers_find_all_public_names():
    tree = ast.parse((ROOT / "core" / "src" / "opwright" / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert {alias.asname for node in imports for alias in node.names} == set(opwright.__all__)


@pytest.mark.parametrize("module", MODULES)
def test_a_public_module_lists_its_names_once(module):
    listed = getattr(importlib.import_module(module), "__all__", None)
    assert listed is None or len(listed) == len(set(listed))


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_exists_and_is_documented(module, name):
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
        assert inspect.getdoc(value)


def imported_modules(path: Path) -> set[str]:
    """Return the names of the opwright core modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.split(".")[0] == "opwright"}


@pytest.mark.parametrize("folder", ["examples", "benchmarks", "docs"])
def test_examples_import_only_public_modules(folder):
    for path in (ROOT / folder).rglob("*.py"):
        private = {
            name
            for name in imported_modules(path)
            if name.split(".")[1:2] and name.split(".")[1] in ROOMS
        }
        assert not private, f"{path.relative_to(ROOT)} imports {sorted(private)}"
