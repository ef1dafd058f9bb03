"""lerp: linear interpolation between two tensors."""

from __future__ import annotations

import numpy as np

from opwright.op import OpMaker, elementwise_shape
from opwright_std.compositions.chain_rules import broadcast_rule
from opwright_std.compositions.expression import read
from opwright_std.numerics.dtypes import FLOATS, Array


def lerp(x: Array, y: Array, weight: Array, out: Array) -> None:
    # Interpolates from the nearer end, so a weight of 1 returns exactly y.
    near = np.abs(weight) < 0.5
    np.copyto(out, np.where(near, x, y) + (y - x) * np.where(near, weight, weight - 1))


LERP = (
    OpMaker("lerp")
    .add_comment(
        "Linear interpolation, out = x + weight * (y - x): x for weight 0, y for weight 1. All "
        "three broadcast."
    )
    .add_input("x", "any shape that broadcasts with y and weight")
    .dtypes(*FLOATS)
    .add_input("y", "any shape that broadcasts")
    .same_dtype_as("x")
    .add_input("weight", "any shape that broadcasts")
    .same_dtype_as("x")
    .add_output("out", "the broadcast shape, dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=elementwise_shape("x", "y", "weight"),
        gradient=broadcast_rule(
            x=lambda grad, g: grad * (1.0 - read(g, "weight")),
            y=lambda grad, g: grad * read(g, "weight"),
            weight=lambda grad, g: grad * (read(g, "y") - read(g, "x")),
        ),
    )
)
