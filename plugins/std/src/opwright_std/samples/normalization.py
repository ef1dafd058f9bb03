"""Inputs of normalizations and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_std.samples.drawn import proposed_with

if TYPE_CHECKING:
    pass


rms_norm = proposed_with(
    loses_tails="out_grad loses its projection on x, which is all of it in a short row"
)
"""Proposed inputs; the gradient cancels for rows of one element."""


dropout_attention = proposed_with(flat_at_nan="a key whose weights are all dropped has gradient 0")
"""Proposed inputs."""


SAMPLES = {"dropout_attention": dropout_attention, "rms_norm": rms_norm}
