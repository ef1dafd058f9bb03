"""What samplers return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None
"""Inputs by slot and attributes; None where this draw has none that fit."""


def proposed(draw: Draw) -> Drawn:
    """Return the inputs that the OpProto proposes."""
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)
