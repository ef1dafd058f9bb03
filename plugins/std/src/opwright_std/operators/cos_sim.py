"""Cosine of the angle between two vectors, along one axis."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    broadcast_shapes,
    by_differentiating,
    grad_op,
    normalize_axis,
)
from opwright_std.compositions.expression import Expression, read_wide, rounded_to, shape_of
from opwright_std.numerics import squares
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.sum_like import sum_to

Shape = tuple[int, ...]


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
    x, y, out, x_norm, y_norm = _aligned(x, y, out, x_norm, y_norm)
    length = np.broadcast_shapes(x.shape, y.shape)[axis]
    for vector, norm in ((x, x_norm), (y, y_norm)):
        repeated = np.broadcast_to(vector, _with_length(vector.shape, axis, length))
        np.maximum(squares.norm(repeated, axis), epsilon, out=norm)
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
    x, y, out, x_norm, y_norm, out_grad = _aligned(x, y, out, x_norm, y_norm, out_grad)
    x_unit, y_unit = x / x_norm, y / y_norm
    sides = ((x_unit, y_unit, x_norm, x_grad), (y_unit, x_unit, y_norm, y_grad))
    for unit, other, norm, grad in sides:
        if grad is None:
            continue
        # d cos / dx = (y/|y| - cos * x/|x|) / |x|; a norm clamped to epsilon is constant.
        across = other * scale - np.where(norm > epsilon, out, 0) * unit
        across *= out_grad / norm
        sum_to(across, grad)


def _aligned(*arrays: Array) -> list[Array]:
    """Return views of x and y with equal rank: the larger of both ranks, at least 1."""
    rank = max(1, *(array.ndim for array in arrays))
    return [array.reshape(_with_rank(array.shape, rank)) for array in arrays]


def _with_rank(shape: Shape, rank: int) -> Shape:
    return (*[1] * (rank - len(shape)), *shape)


def _with_length(shape: Shape, axis: int, length: int) -> Shape:
    front = axis % len(shape)
    return (*shape[:front], length, *shape[front + 1 :])


def _cos_sim_shape(ctx: InferContext) -> None:
    """The output has the broadcast shape of x and y, with length 1 along the axis."""
    x, y = ctx.input("x").shape, ctx.input("y").shape
    rank = max(len(x), len(y))
    axis = normalize_axis(ctx, ctx.attr("axis"), rank, scalar=True)
    broadcast_shapes(x, y, ctx)
    kept = [_with_rank(shape, rank) for shape in (x, y)]
    if rank > 0:
        kept = [_with_length(shape, axis, 1) for shape in kept]
    ctx.set_output("out", broadcast_shapes(kept[0], kept[1], ctx))
    ctx.set_output("x_norm", kept[0])
    ctx.set_output("y_norm", kept[1])


def _vectors(b: BodyContext) -> list[Expression]:
    """Emit x and y with equal ranks of at least 1, and vectors of equal length."""
    shapes = [shape_of(b, slot) for slot in ("x", "y")]
    rank, axis = max(1, *map(len, shapes)), b.attr("axis")
    lengths = [_with_rank(shape, rank)[axis] for shape in shapes]
    vectors = []
    for slot, shape, own, other in zip(("x", "y"), shapes, lengths, lengths[::-1], strict=True):
        vector = read_wide(b, slot)
        if len(shape) < rank:
            vector = vector.then("unsqueeze", axis=list(range(rank - len(shape))))
        if own == 1 != other:
            vector = vector.then("tile", repeats=_with_length((1,) * rank, axis, other))
        vectors.append(vector)
    return vectors


def _composed(b: BodyContext) -> list[Expression]:
    """Emit the operators of out and of both norms."""
    axis, least = b.attr("axis"), b.attr("epsilon")
    x, y = _vectors(b)
    norms = [one.reduce("norm", [axis]).then("clip", min=least) for one in (x, y)]
    terms = (x / norms[0]) * (y / norms[1])
    parts = [terms.reduce("sum", [axis]) * float(b.attr("scale")), *norms]
    if not any(shape_of(b, slot) for slot in ("x", "y")):
        parts = [part.then("squeeze", axis=[0]) for part in parts]
    return [rounded_to(b, part) for part in parts]


def _cos_sim_body(b: BodyContext) -> None:
    for slot, part in zip(("out", "x_norm", "y_norm"), _composed(b), strict=True):
        b.set_output(slot, part.name)


COS_SIM = (
    OpMaker("cos_sim")
    .add_comment(
        "Cosine similarity along one axis, out = scale * <x, y> / (|x| * |y|), with norms of at "
        "least epsilon, so a zero vector results in 0. Vectors and the other axes broadcast; "
        "numbers are vectors of one element."
    )
    .add_input("x", "float")
    .dtypes(*FLOATS)
    .add_input("y", "shape that broadcasts with that of x, dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape to which x and y broadcast, 1 along axis, [] for scalars; dtype of x")
    .same_dtype_as("x")
    .add_output("x_norm", "max(|x|, epsilon), shape of x with the rank of out and 1 along axis")
    .same_dtype_as("x")
    .as_intermediate()
    .add_output("y_norm", "max(|y|, epsilon), shape of y with 1 along axis")
    .same_dtype_as("x")
    .as_intermediate()
    .add_attr("scale", float, "out is in [-scale, scale]")
    .default(1.0)
    .greater_than(0.0)
    .add_attr("axis", int, "the axis of the vectors")
    .default(-1)
    .add_attr("epsilon", float, "lower bound of the norms")
    .default(1e-12)
    .greater_than(0.0)
    .build(
        infer_shape=_cos_sim_shape,
        body=_cos_sim_body,
        gradient=grad_op(
            "cos_sim_grad",
            needs=["x", "y", "out", "x_norm", "y_norm"],
            body=by_differentiating(lambda b: _composed(b)[0].name),
        ),
    )
)
