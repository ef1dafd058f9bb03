"""The compiled modules of lowering look like their Python sources."""

from __future__ import annotations

import ast
import inspect
import runpy
from copy import copy
from pathlib import Path

import pytest

import opwright.lowering as lowering
from opwright import rewriting
from opwright.lowering.graph.values import Buffer, External, Role
from opwright.rewriting import Meta

CLASSES = [
    value
    for name in rewriting.__all__
    if inspect.isclass(value := getattr(rewriting, name))
    and value.__module__.startswith("opwright.lowering.")
    and not issubclass(value, tuple | int)  # mypyc makes their methods without docstrings
]


def read_source(module_name: str) -> ast.Module:
    path = Path(lowering.__file__).parent.joinpath(*module_name.split(".")[2:])
    return ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_methods_and_properties_have_the_docstrings_of_the_source(cls):
    [tree] = [
        node
        for node in read_source(cls.__module__).body
        if isinstance(node, ast.ClassDef) and node.name == cls.__qualname__
    ]
    written = {
        node.name: text
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node))
    }
    found = {name: inspect.getdoc(inspect.getattr_static(cls, name)) for name in written}
    assert found == written
    assert inspect.getdoc(cls) == ast.get_docstring(tree)


def test_functions_have_the_docstrings_of_the_source():
    tree = read_source(rewriting.make_if_served.__module__)
    written = {n.name: ast.get_docstring(n) for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert inspect.getdoc(rewriting.make_if_served) == written["make_if_served"]


def test_a_copied_buffer_has_external_memory_of_its_own():
    external = External(Role.PERSISTABLE, "w", Meta((2,), "float32"), "cpu", create=True)
    buffer = Buffer(8, external)
    buffer.is_shared = True
    other = copy(buffer)
    other.external.index = 3
    assert external.index == -1
    assert (other.size, other.is_shared, other.external.lasts) == (8, True, True)


TRANSLATE = Path(__file__).parents[3] / "core" / "native" / "lowering" / "translate.py"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("raise ValueError() from error", "mypyc ignores `from`"),
        ("raise ValueError() from None", "mypyc ignores `from`"),
        ("done = functools.cached_property(make)", "mypyc computes a cached_property"),
        ("@cached_property\ndef made(self): ...", "mypyc computes a cached_property"),
        ("binds = hasattr(ready, 'bind')", "mypyc hides all errors in hasattr"),
    ],
)
def test_code_that_mypyc_silently_changes_is_not_compiled(tmp_path, line, reason):
    pytest.importorskip("mypyc", reason="it is needed only to build the core")
    module = tmp_path / "module.py"
    module.write_text(f"x = 1\n{line}\n")
    [found] = runpy.run_path(str(TRANSLATE))["find_differences"](module)
    assert found.startswith(f"{module}:2: {reason}")
