"""Translates modules to C with mypyc: ``translate.py FOLDER MODULE.py ...``.

FOLDER gets the source of a library that contains all modules, and for each module the source of an
extension that takes it from the library. CMake runs this in the folder of the Python sources.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mypyc.build import mypycify

GROUP = "opwright_lowering"  # the module of the library is opwright_lowering__mypyc

# Patterns for the docstring after a name in a C table: of a class, of a function or method, and of
# a property. mypyc writes only signatures there.
CLASS = re.compile(r'(\.tp_doc = PyDoc_STR\()("(\w+)\(.*")')
METHOD = re.compile(r'(\(PyCFunction\)CPyPy_(\w+),\s+METH[A-Z_ |]+, PyDoc_STR\()(".*"|NULL)(?=\))')
PROPERTY = re.compile(r"(\(getter\)(\w+)_get_(\w+),\s+(?:NULL|\(setter\)\w+),\s+)NULL(?=, NULL\})")

# The start of the C function that sets a property. Python passes NULL to it for `del`, which mypyc
# does not check.
SETTER = re.compile(
    r"\w+_set_(\w+)\(\w+ \*self, PyObject \*value, void \*closure\)\s+\{\s+char retval = 2;"
)
DELETED = """
if (value == NULL) {{
    PyErr_SetString(PyExc_AttributeError, "attribute '{}' cannot be deleted");
    return -1;
}}"""


def find_differences(module: Path) -> Iterator[str]:
    """Yield the places where compiled code would silently differ from Python."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.cause is not None:
            yield f"{module}:{node.lineno}: mypyc ignores `from`; set the __cause__ of the error"
        elif "cached_property" in (getattr(node, "id", ""), getattr(node, "attr", "")):
            yield f"{module}:{node.lineno}: mypyc computes a cached_property at each access"
        elif getattr(node, "id", "") == "hasattr":
            yield f"{module}:{node.lineno}: mypyc hides all errors in hasattr; use getattr"


def find_docstrings(module: Path) -> Iterator[tuple[str, str]]:
    """Yield the C name and the docstring of each documented class, function and property."""

    def walk(scope: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, str]]:
        for node in scope.body:
            if isinstance(node, ast.ClassDef):
                yield node.name, ast.get_docstring(node) or ""
                yield from walk(node, f"{prefix}___{node.name}")
            elif isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield f"{prefix}___{node.name}", text

    yield from walk(ast.parse(module.read_text(encoding="utf-8")), module.stem)


def add_docstrings(source: str, docstrings: dict[str, str]) -> str:
    """Insert the docstrings into the tables of a C source; return the result."""
    quoted = {name: json.dumps(text, ensure_ascii=False) for name, text in docstrings.items()}
    source = CLASS.sub(lambda m: f"{m[1]}{m[2]} {quoted.get(m[3], '')}", source)
    source = METHOD.sub(lambda m: f"{m[1]}{_join(m[3], quoted.get(m[2]))}", source)
    return PROPERTY.sub(lambda m: m[1] + quoted.get(f"{m[2]}___{m[3]}", "NULL"), source)


def refuse_deletion(source: str) -> str:
    """Return a C source in which ``del`` of a property raises AttributeError."""
    return SETTER.sub(lambda m: m[0] + DELETED.format(m[1]), source)


def _join(signature: str, text: str | None) -> str:
    return text if text and signature == "NULL" else f"{signature} {text or ''}"


def main() -> None:
    """Run the command."""
    folder, modules = Path(sys.argv[1]), sys.argv[2:]
    if differences := [text for path in modules for text in find_differences(Path(path))]:
        raise SystemExit("\n".join(differences))
    made = folder / "mypyc"
    # `make lint` checks the types. Here, a project above this folder may configure mypy, and other
    # modules have errors if packages are missing.
    options = ["--config-file=", f"--cache-dir={folder}/cache"]
    options += ["--ignore-missing-imports", "--follow-imports=silent"]
    mypycify([*options, *modules], target_dir=str(made), group_name=GROUP)
    docstrings = {name: text for path in modules for name, text in find_docstrings(Path(path))}
    for path in (*made.rglob("*.c"), *made.rglob("*.h")):
        new = folder / path.relative_to(made)
        source = refuse_deletion(add_docstrings(path.read_text(encoding="utf-8"), docstrings))
        if not new.is_file() or new.read_text(encoding="utf-8") != source:  # else it is compiled
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(source, encoding="utf-8")
    (folder / "translated").touch()  # the tests compare its time with that of the Python sources
    sys.stdout.flush()
    os._exit(0)  # without freeing the memory of mypy object by object, which takes as long again


if __name__ == "__main__":
    main()
