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


def frame_page(program: object) -> str | None:
    """Return a program as HTML for a notebook, None where opwright-kit or operators are missing."""
    try:
        frame = load_tool("frame")
    except MissingRequirementError:
        return None
    return frame(program)  # type: ignore[no-any-return]
