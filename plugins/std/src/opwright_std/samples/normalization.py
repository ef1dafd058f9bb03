"""What the OpProto of a normalisation, or of attention, cannot say of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None


def rms_norm(draw: Draw) -> Drawn:
    """Inputs as they are proposed; the gradient loses its digits where a row has one element."""
    draw.loses_tails = "what is along x is taken off out_grad, and that is all of it in a short row"
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)


def dropout_attention(draw: Draw) -> Drawn:
    """Inputs as they are proposed."""
    draw.flat_at_nan = "a key whose weights are all dropped has the gradient 0, whatever it is"
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)


SAMPLES = {"dropout_attention": dropout_attention, "rms_norm": rms_norm}
