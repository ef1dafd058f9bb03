"""What goes wrong between processes."""

from __future__ import annotations

from opwright.errors import OpwrightError


class DistError(OpwrightError, RuntimeError):
    """Processes do not fit together, did not come, or cannot be connected."""
