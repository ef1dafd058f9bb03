"""Inputs of normalizations and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_std.samples.drawn import Drawn, proposed

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def rms_norm(draw: Draw) -> Drawn:
    """Proposed inputs; the gradient cancels for rows of one element."""
    draw.loses_tails = "out_grad loses its projection on x, which is all of it in a short row"
    return proposed(draw)


def dropout_attention(draw: Draw) -> Drawn:
    """Proposed inputs."""
    draw.flat_at_nan = "a key whose weights are all dropped has gradient 0"
    return proposed(draw)


SAMPLES = {"dropout_attention": dropout_attention, "rms_norm": rms_norm}
