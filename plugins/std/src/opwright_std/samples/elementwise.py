"""What the OpProto of an element-wise operator cannot say of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opwright_std.samples.operators import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def nan_to_num(draw: Draw) -> Drawn:
    """Inputs as they are proposed, in some of them NaN and infinities, which are replaced."""
    draw.drops_nan = "another number stands for it"
    draw.flat_at_nan = "what stands for NaN does not depend on it"
    draw.loses_tails = "what stands for infinity does not depend on it"
    inputs, attrs = draw.propose(), draw.attrs
    if inputs is not None and draw.label.startswith("random"):
        x = inputs["x"][0].reshape(-1)
        if x.dtype.kind not in "iu":
            x[: min(3, x.size)] = (np.nan, np.inf, -np.inf)[: x.size]
        # The greatest number of a dtype is not that of another one.
        attrs = {**attrs, "posinf": min(attrs["posinf"], 2.0), "neginf": max(attrs["neginf"], -3.0)}
    return None if inputs is None else (inputs, attrs)


def polygamma(draw: Draw) -> Drawn:
    """Numbers to the right of the poles, and an order that leaves them in the range of a dtype."""
    draw.loses_tails = "whole numbers below 0 are poles"
    inputs = draw.propose()
    if inputs is None:
        return None
    inputs["x"] = tuple(np.asarray(np.abs(array) + 0.5) for array in inputs["x"])
    return inputs, {"n": int(draw.choice([0, 1, 2, 3]))}


def sinc(draw: Draw) -> Drawn:
    """Inputs as they are proposed."""
    draw.loses_tails = "far out every number is whole, and between two of them there is none"
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)


SAMPLES = {"nan_to_num": nan_to_num, "polygamma": polygamma, "sinc": sinc}
