"""Libraries that engines open: their own, and libraries in wheels of other distributions."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

from opwright_dist.errors import DistError


def find_own_library(package: ModuleType, name: str) -> Path:
    """Return the path of a package's own library: an editable installation has two folders.

    Raises
    ------
    DistError
        There is none.
    """
    folders = [Path(folder) for folder in package.__path__]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    who = package.__name__.replace("_", "-")
    raise DistError(
        f"{who}: its library {name} must be in the package, got none in {folders}; install {who} "
        "again"
    )


def find_in_wheel(wheel: str, name: str) -> str | None:
    """Return the path of a file in an installed wheel, or None."""
    try:
        files = distribution(wheel).files or []
    except PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == name)
    return next(map(str, paths), None)
