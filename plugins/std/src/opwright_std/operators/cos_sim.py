"""Cosine of the angle between two vectors, along one axis."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, broadcast_shapes, grad_op, normalize_axis
from opwright_std.compositions import losses as losses_gradients
from opwright_std.numerics import squares
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.sum_like import sum_to


def cos_sim(
    x: Array,
    y: Array,
    out: Array,
    x_norm: Array,
    y_norm: Array,
    *,
    scale: float,
    axis: int,
    epsilon: float,
) -> None:
    for vector, norm in ((x, x_norm), (y, y_norm)):
        np.maximum(squares.norm(vector, axis), epsilon, out=norm)
    # Each factor is divided by its own norm: the product of the norms might underflow.
    np.sum((x / x_norm) * (y / y_norm), axis=axis, keepdims=True, out=out)
    out *= scale


def cos_sim_grad(
    x: Array,
    y: Array,
    out: Array,
    x_norm: Array,
    y_norm: Array,
    out_grad: Array,
    x_grad: Array | None,
    y_grad: Array | None,
    *,
    scale: float,
    epsilon: float,
    **_: object,
) -> None:
    x_unit, y_unit = x / x_norm, y / y_norm
    sides = ((x_unit, y_unit, x_norm, x_grad), (y_unit, x_unit, y_norm, y_grad))
    for unit, other, norm, grad in sides:
        if grad is None:
            continue
        # d cos / dx = (y/|y| - cos * x/|x|) / |x|; a norm held at epsilon does not move.
        across = other * scale - np.where(norm > epsilon, out, 0) * unit
        across *= out_grad / norm
        sum_to(across, grad)


def _cos_sim_shape(ctx: InferContext) -> None:
    """The output has the shape to which x and y broadcast, with length 1 along the axis."""
    x, y = ctx.input("x").shape, ctx.input("y").shape
    ctx.require(len(x) == len(y), f"x and y must have one rank, got {len(x)} and {len(y)}")
    axis = normalize_axis(ctx, ctx.attr("axis"), len(x))
    ctx.require(
        x[axis] == y[axis] or -1 in (x[axis], y[axis]),
        f"x and y must have vectors of one length along axis {axis}, got {x[axis]} and {y[axis]}",
    )
    kept = [(*shape[:axis], 1, *shape[axis + 1 :]) for shape in (x, y)]
    ctx.set_output("out", broadcast_shapes(kept[0], kept[1], ctx))
    ctx.set_output("x_norm", kept[0])
    ctx.set_output("y_norm", kept[1])


COS_SIM = (
    OpMaker("cos_sim")
    .add_comment(
        "Cosine similarity along one axis, out = scale * <x, y> / (|x| * |y|), each norm being at "
        "least epsilon, so that a vector of zeros gives 0. The other axes broadcast."
    )
    .add_input("x", "float, at least 1-d")
    .dtypes(*FLOATS)
    .add_input("y", "as many axes as x, the same length along axis; dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape to which x and y broadcast, with 1 along axis; dtype of x")
    .same_dtype_as("x")
    .add_output("x_norm", "max(|x|, epsilon), shape of x with 1 along axis")
    .same_dtype_as("x")
    .as_intermediate()
    .add_output("y_norm", "max(|y|, epsilon), shape of y with 1 along axis")
    .same_dtype_as("x")
    .as_intermediate()
    .add_attr("scale", float, "out lies in [-scale, scale]")
    .default(1.0)
    .greater_than(0.0)
    .add_attr("axis", int, "the axis of the vectors")
    .default(-1)
    .add_attr("epsilon", float, "least norm that is divided by")
    .default(1e-12)
    .greater_than(0.0)
    .build(
        infer_shape=_cos_sim_shape,
        gradient=grad_op(
            "cos_sim_grad",
            needs=["x", "y", "out", "x_norm", "y_norm"],
            body=losses_gradients.COS_SIM,
        ),
    )
)
