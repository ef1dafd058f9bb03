"""What the OpProto of an element-wise operator cannot say of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opwright_std.samples.drawn import Drawn, proposed

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


def stepped(draw: Draw) -> Drawn:
    """Inputs as they are proposed, of functions that are lines between steps."""
    draw.loses_tails = "far out there is a step between any two numbers"
    return proposed(draw)


def bit_cast(draw: Draw) -> Drawn:
    """Whole numbers: floats have other bytes in other dtypes, in which references compute."""
    draw.drops_nan = "the bytes of NaN and of infinities are other numbers"
    inputs = draw.propose()
    if inputs is None or inputs["x"][0].dtype.kind not in "iu":
        return None
    return inputs, {"dtype": inputs["x"][0].dtype.name}


def without_nan(draw: Draw) -> Drawn:
    """Inputs as they are proposed, of reductions that ignore NaN."""
    draw.drops_nan = draw.flat_at_nan = "NaN is not counted"
    return proposed(draw)


def sinc(draw: Draw) -> Drawn:
    """Inputs as they are proposed."""
    draw.loses_tails = "far out every number is whole, and between two of them there is none"
    return proposed(draw)


SAMPLES = {
    "bit_cast": bit_cast,
    "fmod": stepped,
    "frac": stepped,
    "nan_to_num": nan_to_num,
    "nanmean": without_nan,
    "nanmedian": without_nan,
    "nanquantile": without_nan,
    "nansum": without_nan,
    "polygamma": polygamma,
    "sinc": sinc,
}
