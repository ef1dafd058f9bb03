"""Inputs of element-wise operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opwright_std.samples.drawn import Drawn, proposed_with

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def nan_to_num(draw: Draw) -> Drawn:
    """Propose inputs, some with NaN and infinities, which the operator replaces."""
    draw.drops_nan = "it is replaced by a number"
    draw.flat_at_nan = "the replacement of NaN does not depend on it"
    draw.loses_tails = "the replacement of infinity does not depend on it"
    inputs, attrs = draw.propose(), draw.attrs
    if inputs is not None and draw.label.startswith("random"):
        x = inputs["x"][0].reshape(-1)
        if x.dtype.kind not in "iu":
            x[: min(3, x.size)] = (np.nan, np.inf, -np.inf)[: x.size]
        # The largest number differs between dtypes.
        attrs = {**attrs, "posinf": min(attrs["posinf"], 2.0), "neginf": max(attrs["neginf"], -3.0)}
    return None if inputs is None else (inputs, attrs)


def polygamma(draw: Draw) -> Drawn:
    """Draw positive numbers, which are not poles, and an order of at most 3 to avoid overflow."""
    draw.loses_tails = "negative integers are poles"
    inputs = draw.propose()
    if inputs is None:
        return None
    inputs["x"] = tuple(np.asarray(np.abs(array) + 0.5) for array in inputs["x"])
    return inputs, {"n": int(draw.choice([0, 1, 2, 3]))}


stepped = proposed_with(loses_tails="large numbers are separated by jumps")
"""Proposed inputs of piecewise linear functions with jumps."""


def bit_cast(draw: Draw) -> Drawn:
    """Draw integers, since the bytes of floats differ in the dtype of the reference."""
    draw.drops_nan = "the bytes of NaN and infinities are other numbers"
    inputs = draw.propose()
    if inputs is None or inputs["x"][0].dtype.kind not in "iu":
        return None
    return inputs, {"dtype": inputs["x"][0].dtype.name}


without_nan = proposed_with(drops_nan="NaN is ignored", flat_at_nan="NaN is ignored")
"""Proposed inputs of reductions that ignore NaN."""


sinc = proposed_with(loses_tails="every large float is an integer without a fraction")
"""Proposed inputs."""


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
