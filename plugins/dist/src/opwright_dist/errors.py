"""The error class for communication between processes."""

from __future__ import annotations

from opwright.errors import OpwrightError


class DistError(OpwrightError, RuntimeError):
    """Raised if processes are inconsistent or missing, or cannot be connected."""
