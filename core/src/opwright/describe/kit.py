"""Finds tools of opwright-kit by name; the core works without it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opwright.errors import MissingRequirementError


def load_tool(name: str) -> Any:
    """Return a public name of `opwright_kit`.

    Raises
    ------
    MissingRequirementError
        Where opwright-kit is not installed.
    """
    try:
        kit = import_module("opwright_kit")
    except ModuleNotFoundError as error:
        if error.name != "opwright_kit":
            raise
        raise MissingRequirementError(
            f"{name}: opwright-kit provides this, got an installation without it; to get it: "
            'pip install "opwright[dev]"'
        ) from None
    return getattr(kit, name)
