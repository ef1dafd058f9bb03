"""Finds the libraries that engines open, in the engine package or in other wheels."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

from opwright_dist.errors import DistError


def find_own_library(package: ModuleType, name: str) -> Path:
    """Return the path of a library in a package; an editable package has two folders.

    Raises
    ------
    DistError
        If the library does not exist.
    """
    folders = [Path(folder) for folder in package.__path__]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    who = package.__name__.replace("_", "-")
    raise DistError(
        f"{who}: the package must contain the library {name}, got none in {folders}; "
        f"reinstall {who}"
    )


def find_in_wheel(wheel: str, name: str) -> str | None:
    """Return the path of a file in an installed wheel, or None."""
    try:
        files = distribution(wheel).files or []
    except PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == name)
    return next(map(str, paths), None)
