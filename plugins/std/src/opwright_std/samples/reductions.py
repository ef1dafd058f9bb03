"""Inputs of reductions and sorting operators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from opwright_std.samples.drawn import Drawn, proposed_with

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


ordered = proposed_with(drops_nan="NaN sorts differently from the number it replaces")
"""Proposed inputs of operators that sort."""


def searched(draw: Draw) -> Drawn:
    """Draw sorted numbers, and values to search for."""
    draw.drops_nan = "NaN is greater than every number, and its index is finite"
    side = str(draw.choice(["left", "right"]))
    x = np.sort(draw.floats((draw.length,)))
    values = draw.floats((2, draw.other_length() + 1))
    if len(x):
        values[0] = x[draw.rng.integers(len(x), size=values.shape[1])]
    return {"x": x, "values": values}, {"side": side}


def bucketed(draw: Draw) -> Drawn:
    """Draw sorted boundaries, and values to search for."""
    drawn = searched(draw)
    if drawn is None:
        return None
    inputs, attrs = drawn
    return {"x": inputs["values"], "boundaries": inputs["x"]}, {**draw.attrs, **attrs}


def running_extremum(draw: Draw) -> Drawn:
    """Propose inputs without equal floats, since only one of several equal ones gets a gradient."""
    inputs = draw.propose()
    if inputs is None:
        return None
    x = inputs["x"][0]
    if x.dtype.kind == "f":
        apart = draw.rng.permutation(x.size) / max(x.size, 1) - 0.5
        inputs["x"] = (np.asarray(apart.reshape(x.shape).astype(x.dtype)),)
    return inputs, draw.attrs


def masked(draw: Draw) -> Drawn:
    """Propose inputs with enough unmasked elements in each line to affect its result."""
    inputs = draw.propose()
    if inputs is None:
        return None
    x, axis = inputs["x"][0], draw.attrs["axis"]
    axes = axis if isinstance(axis, (list, tuple)) else [axis]
    lengths = (x.shape[a] for a in axes or range(x.ndim) if -x.ndim <= a < x.ndim)
    count = math.prod(lengths)
    mask = np.ones(x.shape, bool)
    if count > 2 and x.size:
        mask.reshape(-1)[0] = False
    inputs["mask"] = (mask,)
    return inputs, draw.attrs


def counted(draw: Draw) -> Drawn:
    """Draw ids, and sometimes weights."""
    length = draw.other_length() + 1
    draw.refused["x"] = (-1, length)
    inputs = {"x": draw.integers((draw.length,), 0, length, draw.dtype)}
    if draw.choice([False, True]):
        inputs["weights"] = draw.floats((draw.length,), dtype="float64")
    return inputs, {"length": length}


def binned(draw: Draw) -> Drawn:
    """Draw numbers inside and outside of the bins."""
    draw.drops_nan = "NaN is in no bin"
    x = draw.floats((draw.other_length(), draw.length))
    return {"x": x}, {"bins": draw.other_length() + 1, "min": -0.75, "max": 0.5}


SAMPLES = {
    "argsort": ordered,
    "bincount": counted,
    "bucketize": bucketed,
    "cummax": running_extremum,
    "cummin": running_extremum,
    "histogram": binned,
    **{
        f"masked_{name}": masked
        for name in (
            *("mean", "variance", "std", "norm", "logsumexp", "softmax", "log_softmax"),
            *("sum", "prod", "max", "min", "cumsum", "cumprod"),
        )
    },
    "searchsorted": searched,
    "sort": ordered,
    "unique": ordered,
}
