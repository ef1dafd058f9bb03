"""Inputs of optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


POSITIVE = ("moment2", "infinity_norm", "squares", "mean_square", "mean_update")
"""States of squares or magnitudes."""
SCALARS = ("beta1_power", "beta2_power")
"""Scalar states of the sparse optimizers."""
FRACTIONS = ("beta1_power", "beta2_power", "mu_product", "mean_grad")
"""Powers of decay rates are between 0 and 1; the squared mean is below the mean of squares."""


def optimizer(draw: Draw) -> Drawn:
    """Propose squares of at least 0, powers of decay rates between 0 and 1, and integer steps."""
    inputs = draw.propose()
    if inputs is None:
        return None
    for slot, arrays in inputs.items():
        if slot in (*POSITIVE, *FRACTIONS, "learning_rate"):
            inputs[slot] = tuple(np.asarray(np.abs(array) / 4 + 0.25) for array in arrays)
        elif slot == "step":
            inputs[slot] = tuple(np.asarray(np.rint(np.abs(array)) + 1) for array in arrays)
    return inputs, draw.attrs


def rmsprop(draw: Draw) -> Drawn:
    """Draw optional states, and set the attributes that require them."""
    drawn = optimizer(draw)
    if drawn is None:
        return None
    attrs = dict(draw.attrs)
    attrs["centered"] = bool(drawn[0].get("mean_grad"))
    attrs["momentum"] = (attrs["momentum"] or 0.5) if drawn[0].get("velocity") else 0.0
    return drawn[0], attrs


def radam(draw: Draw) -> Drawn:
    """Propose steps before and long after the second moment becomes accurate enough."""
    drawn = optimizer(draw)
    if drawn is None:
        return None
    step = np.full_like(drawn[0]["step"][0], draw.choice([2, 100]))
    inputs = {**drawn[0], "step": (step,)}
    return inputs, {**draw.attrs, "beta2": 0.9 + 0.09 * draw.attrs["beta2"]}


def sparse(draw: Draw) -> Drawn:
    """Draw two lookups of a table, with repeated rows."""
    count = draw.other_length() if draw.length == 0 else max(draw.length, 1)
    size = draw.other_length()
    shapes = (draw.length,), (draw.other_length() if count else 0, 2)
    kinds = [str(draw.choice(["int32", "int64"])) for _ in shapes]
    inputs: dict[str, Any] = {
        "param": draw.floats((count, size)),
        "rows": tuple(draw.integers(shapes[i], 0, count, kinds[i]) for i in range(2)),
        "values": tuple(draw.floats((*shape, size)) for shape in shapes),
        "learning_rate": np.array([0.25], "float32"),
    }
    for slot in draw.definition.proto.inputs:
        if slot.name in SCALARS:
            inputs[slot.name] = np.array([draw.rng.uniform(0.25, 0.75)], "float64")
        elif slot.name not in inputs:
            inputs[slot.name] = draw.floats((count, size), 0.25, 2.0)
    draw.refused["rows"] = (-1, count)
    draw.drops_nan = "a row without a lookup is not read"
    padding = [int(draw.rng.integers(-1, count)), -1] if count else []
    return inputs, {**draw.attrs, "padding_indices": padding}


def clip_by_global_norm(draw: Draw) -> Drawn:
    """Draw at most two of the proposed tensors."""
    inputs = draw.propose()
    if inputs is None:
        return None
    return {"x": tuple(inputs["x"][:2])}, draw.attrs


_TYPES = "adam adamw adamax nadam lamb adagrad adadelta proximal_gd proximal_adagrad ftrl"

SAMPLES = {**dict.fromkeys(_TYPES.split(), optimizer), "radam": radam, "rmsprop": rmsprop}
SAMPLES |= dict.fromkeys(("sparse_sgd", "sparse_momentum", "sparse_adagrad", "sparse_adam"), sparse)
SAMPLES["clip_by_global_norm"] = clip_by_global_norm
