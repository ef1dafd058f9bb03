"""Errors between processes."""

from __future__ import annotations

from opwright.errors import OpwrightError


class DistError(OpwrightError, RuntimeError):
    """Processes are inconsistent, missing, or cannot be connected."""
