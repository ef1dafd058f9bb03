"""The error of a package that cannot be generated."""

from __future__ import annotations

from opwright.errors import OpwrightError


class ScaffoldError(OpwrightError, ValueError):
    """A package cannot be generated as requested, or cannot be written."""
