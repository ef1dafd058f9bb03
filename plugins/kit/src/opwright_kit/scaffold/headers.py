"""The ABI headers that a compiled package contains so that it builds without opwright."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from opwright import get_include
from opwright_kit.scaffold.errors import ScaffoldError

_CMAKE_FILE: Final = "opwrightConfig.cmake"
_CALLERS_HEADER: Final = "run.h"
"""A header for programs that run bundles; plugins do not need it."""

_VERSION: Final = re.compile(r"^#define OW_ABI_(MAJOR|MINOR) (\d+)$", re.MULTILINE)


def get_abi_version() -> str:
    """Return the version of the installed headers: ``"1.0"``.

    Raises
    ------
    ScaffoldError
        If ``abi.h`` does not define it.
    """
    path = Path(get_include()) / "opwright" / "abi.h"
    numbers = dict(_VERSION.findall(path.read_text(encoding="utf-8")))
    if set(numbers) != {"MAJOR", "MINOR"}:
        raise ScaffoldError(
            f"new: {path} must define OW_ABI_MAJOR and OW_ABI_MINOR, got "
            f"{sorted(numbers)}; reinstall opwright"
        )
    return f"{numbers['MAJOR']}.{numbers['MINOR']}"


def list_headers() -> Iterator[tuple[str, str]]:
    """Yield path and text of each file: the headers, and the CMake package that finds them.

    Raises
    ------
    FileNotFoundError
        If the installed opwright lacks them.
    """
    include = Path(get_include())
    for folder in ("dlpack", "opwright"):
        for path in sorted((include / folder).rglob("*.h*")):
            if path.name == _CALLERS_HEADER:
                continue
            text = path.read_text(encoding="utf-8")
            yield f"include/{path.relative_to(include).as_posix()}", text
    # The file is next to the package's headers, or in the sources of the core.
    for place in ("share/cmake/opwright", "cmake"):
        path = include.parent / place / _CMAKE_FILE
        if path.is_file():
            yield f"cmake/{_CMAKE_FILE}", path.read_text(encoding="utf-8")
            return
    raise FileNotFoundError(f"opwright: no {_CMAKE_FILE} near {include}; reinstall opwright")
