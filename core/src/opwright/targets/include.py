"""Finds the C headers."""

from __future__ import annotations

from pathlib import Path


def get_include() -> str:
    """Return the folder for ``-I`` of a C or C++ compiler, with ``opwright/abi.h``.

    Raises
    ------
    FileNotFoundError
        If the headers are neither in the installed package nor in the source tree.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "include", package.parents[1] / "include"):
        if (folder / "opwright" / "abi.h").is_file():
            return str(folder)
    raise FileNotFoundError(f"opwright: no headers next to {package}; reinstall opwright")
