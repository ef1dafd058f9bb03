"""What the OpProto of a normalisation, or of attention, cannot say of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_std.samples.drawn import Drawn, proposed

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def rms_norm(draw: Draw) -> Drawn:
    """Inputs as they are proposed; the gradient loses its digits where a row has one element."""
    draw.loses_tails = "what is along x is taken off out_grad, and that is all of it in a short row"
    return proposed(draw)


def dropout_attention(draw: Draw) -> Drawn:
    """Inputs as they are proposed."""
    draw.flat_at_nan = "a key whose weights are all dropped has the gradient 0, whatever it is"
    return proposed(draw)


SAMPLES = {"dropout_attention": dropout_attention, "rms_norm": rms_norm}
