"""Imports Ray on demand, since the import takes a second."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from opwright.errors import MissingRequirementError

RELEASE: Final = "2.60"
INSTALL: Final = 'pip install "ray[train]>=2.60,<2.61"'


def load_ray(who: str) -> Any:
    """Import ``ray`` and ``ray.train``, and return ``ray``.

    Parameters
    ----------
    who : str
        The caller, for the error.

    Raises
    ------
    MissingRequirementError
        If Ray is not installed or has a different release.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    release = find_release()
    if release is None:
        raise MissingRequirementError(f"{who}: Ray must be installed, got none; {INSTALL}")
    if not release.startswith(f"{RELEASE}."):
        raise MissingRequirementError(
            f"{who}: Ray must have release {RELEASE}, whose backend interface is used, got "
            f"{release}; {INSTALL}"
        )
    try:
        import_module("ray.train")
    except ImportError as error:
        raise MissingRequirementError(
            f"{who}: Ray must be installed with the extra ray[train], got {error}; {INSTALL}"
        ) from error
    return import_module("ray")


def find_release() -> str | None:
    """Return the installed Ray version, or None."""
    try:
        return version("ray")
    except PackageNotFoundError:
        return None
