"""What the OpProto of an operator cannot say of its inputs; `opwright check` draws them so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from opwright.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None


def adam(draw: Draw) -> Drawn:
    """Moments of squares are not negative, and powers of beta lie between 0 and 1."""
    inputs = draw.propose()
    if inputs is None:
        return None
    for slot in ("moment2", "beta1_power", "beta2_power"):
        inputs[slot] = tuple(np.asarray(np.abs(array) / 4 + 0.25) for array in inputs[slot])
    return inputs, draw.attrs


def probabilities(draw: Draw) -> Drawn:
    """Probabilities lie between 0 and 1: the logarithm of others is no number."""
    inputs = draw.propose()
    if inputs is None:
        return None
    inputs["x"] = tuple(np.asarray(np.abs(array) / 4 + 0.25) for array in inputs["x"])
    return inputs, draw.attrs


SAMPLES = {"adam": adam, "adamw": adam, "cross_entropy": probabilities}
