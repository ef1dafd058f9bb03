"""The result type of samplers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None
"""Inputs by slot and attributes; None if this draw has no valid inputs."""


def proposed(draw: Draw) -> Drawn:
    """Return the inputs proposed by the OpProto."""
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)


def proposed_with(**notes: str) -> Callable[[Draw], Drawn]:
    """Return a function that also sets attributes of the draw, such as ``drops_nan``."""

    def propose(draw: Draw) -> Drawn:
        for name, note in notes.items():
            setattr(draw, name, note)
        return proposed(draw)

    return propose
