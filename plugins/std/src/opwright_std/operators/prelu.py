"""prelu: a leaky rectifier whose slope is a parameter."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    GradientContext,
    InferContext,
    OpMaker,
)
from opwright_std.compositions.chain_rules import set_broadcast_grad
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.dtypes import FLOATS, Array


def prelu(x: Array, weight: Array, out: Array) -> None:
    below = x <= 0
    np.copyto(out, x)
    np.multiply(out, weight, out=out, where=below)


def _prelu_gradient(g: GradientContext) -> None:
    grad, x, weight = g.output_grad("out"), g.input("x"), g.input("weight")
    zero = g.emit("fill_like", {"x": weight})  # broadcasts like the weight
    above = g.emit("greater", {"x": x, "y": zero})
    if g.wants("x"):
        bent = g.emit("multiply", {"x": grad, "y": weight})
        g.set_input_grad("x", g.emit("where", {"condition": above, "x": grad, "y": bent}))
    if g.wants("weight"):
        product = g.emit("multiply", {"x": grad, "y": x})
        part = g.emit("where", {"condition": above, "x": zero, "y": product})
        set_broadcast_grad(g, "weight", part, ["x"])


def _prelu_shape(ctx: InferContext) -> None:
    """The output has the shape of x, to which the weight must broadcast."""
    shape = ctx.input("x").shape
    require_broadcast(ctx, "weight", shape)
    ctx.set_output("out", shape)


PRELU = (
    OpMaker("prelu")
    .add_comment(
        "Rectifier with a learned slope, out = x where x > 0, otherwise weight * x. The "
        "gradient of x at 0 is weight. He et al., 2015."
    )
    .add_input("x", "any shape")
    .dtypes(*FLOATS)
    .add_input("weight", "slopes for negative x, broadcast to the shape of x")
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_prelu_shape, gradient=_prelu_gradient)
)
