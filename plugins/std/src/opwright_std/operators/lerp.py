"""lerp: linear interpolation between two tensors."""

from __future__ import annotations

import numpy as np

from opwright.op import GradientContext, OpMaker, elementwise_shape
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.sum_like import set_broadcast_grad


def lerp(x: Array, y: Array, weight: Array, out: Array) -> None:
    # From the nearer end, so that a weight of 1 returns exactly y.
    near = np.abs(weight) < 0.5
    np.copyto(out, np.where(near, x, y) + (y - x) * np.where(near, weight, weight - 1))


def _lerp_gradient(g: GradientContext) -> None:
    grad, x, y, weight = g.output_grad("out"), g.input("x"), g.input("y"), g.input("weight")
    if g.wants("x"):
        rest = g.emit("scale", {"x": weight}, attrs={"scale": -1.0, "bias": 1.0})
        set_broadcast_grad(g, "x", g.emit("multiply", {"x": grad, "y": rest}), ["y", "weight"])
    if g.wants("y"):
        set_broadcast_grad(g, "y", g.emit("multiply", {"x": grad, "y": weight}), ["x", "weight"])
    if g.wants("weight"):
        way = g.emit("subtract", {"x": y, "y": x})
        set_broadcast_grad(g, "weight", g.emit("multiply", {"x": grad, "y": way}), ["x", "y"])


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
    .build(infer_shape=elementwise_shape("x", "y", "weight"), gradient=_lerp_gradient)
)
