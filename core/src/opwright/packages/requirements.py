"""Finds missing requirements of an installed package that failed to import or open.

Importing this module takes 26 ms and it is rarely needed, so import it on demand.
"""

from __future__ import annotations

import operator
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import files, requires, version
from pathlib import Path
from typing import Any, Final, TypeVar

from opwright.foreign import raise_if_of_signal

_T = TypeVar("_T")

# Name, extras, versions, address and marker in one "Requires-Dist" line.
_LINE: Final = re.compile(r"\s*([\w][\w.-]*)\s*(?:\[[^\]]*\])?\s*([^;@]*?)\s*(?:@[^;]*)?(?:;(.*))?")
_CLAUSE: Final = re.compile(r"\s*(\w+)\s*(==|!=|<=|>=|<|>)\s*(['\"])(.*)\3\s*")
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def find_missing(distribution: str) -> list[str]:
    """Return the requirements of a distribution that are not installed, as arguments for pip.

    Extras are ignored, and requirements with an unsupported marker are skipped, so every returned
    requirement is certainly missing.
    """
    return [
        match[1] + match[2].strip("() ").replace(" ", "")
        for match in _read_requirements(distribution)
        if _applies(match[3]) and not _is_installed(match[1])
    ]


def list_extras(distribution: str) -> list[tuple[str, str]]:
    """Return pairs of an extra of a distribution and a distribution that it installs, in order."""
    clauses = [(_CLAUSE.fullmatch(m[3] or ""), m[1]) for m in _read_requirements(distribution)]
    return [(c[4], name) for c, name in clauses if c is not None and c[1] == "extra"]


def ask(function: Callable[[str], _T], name: str) -> _T | None:
    """Call an importlib function with the name of a distribution or module.

    Returns None if the distribution or module is missing or its files cannot be read, because the
    result is only used to explain another failure.
    """
    try:
        return function(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - files and finders of others
        raise_if_of_signal(error)
        return None


def _read_requirements(distribution: str) -> list[re.Match[str]]:
    lines = ask(requires, distribution) or []
    return [match for match in map(_LINE.fullmatch, lines) if match is not None]


def find_missing_for(module: str, distribution: str) -> list[str]:
    """Return the requirements to install for a top-level module that a distribution imports.

    The result is the missing requirement with the name of the module. If none has this name, all
    missing requirements are returned, because a module and its distribution may differ in name.
    """
    missing = find_missing(distribution)
    return [item for item in missing if _normal(item) == _normal(module)] or missing


def has_module(distribution: str, module: str) -> bool:
    """Return whether a top-level module is among the files of a distribution."""
    listed = ask(files, distribution) or ()
    return any(file.parts[:1] in {(module,), (f"{module}.py",)} for file in listed)


def find_required_file(distribution: str, name: str) -> Path | None:
    """Return the path of the file ``name`` in a required distribution, or None."""
    required = (m[1] for m in _read_requirements(distribution) if _is_installed(m[1]))
    listed = (file for each in required for file in ask(files, each) or ())
    return next((Path(str(f.locate())).resolve() for f in listed if f.name == name), None)


def _is_installed(name: str) -> bool:
    return ask(version, name) is not None


def _normal(requirement: str) -> str:
    """Return the name of a requirement or module, normalized as by the package `packaging`."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def _applies(marker: str | None) -> bool:
    if marker is None:
        return True
    if "(" in marker and " or " in marker:
        return False  # nested markers are not supported
    text = marker.replace("(", " ").replace(")", " ")
    return any(all(map(_holds, re.split(r"\sand\s", part))) for part in re.split(r"\sor\s", text))


def _holds(clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    variables = _variables()
    if match is None or match[1] not in variables:
        return False
    ours, theirs = variables[match[1]], match[4]
    compare = _COMPARE[match[2]]
    if match[1].startswith("python_"):
        return compare(_numbers(ours), _numbers(theirs))
    return compare(ours, theirs)


def _variables() -> dict[str, str]:
    return {
        "os_name": os.name,
        "sys_platform": sys.platform,
        "platform_machine": platform.machine(),
        "platform_system": platform.system(),
        "platform_python_implementation": platform.python_implementation(),
        "implementation_name": sys.implementation.name,
        "python_version": f"{sys.version_info.major}.{sys.version_info.minor}",
        "python_full_version": platform.python_version(),
    }


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
