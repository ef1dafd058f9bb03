"""The error of ``opwright.ops.NAME`` where no plugin provides NAME."""

from __future__ import annotations

from opwright.errors import OperatorNotFoundError


class MissingOperatorError(OperatorNotFoundError, AttributeError):
    """No operator of this name; an AttributeError too, so that ``hasattr`` and editors work."""
