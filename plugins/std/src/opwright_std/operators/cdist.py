"""cdist: distances of all pairs of vectors."""

from __future__ import annotations

import math

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    broadcast_shapes,
    by_differentiating,
    dims_match,
    format_shape,
    grad_op,
)
from opwright_std.compositions.expression import (
    Expression,
    in_float32,
    rank_of,
    read_wide,
    rounded_to,
)
from opwright_std.numerics.dtypes import FLOATS


def _cdist_shape(ctx: InferContext) -> None:
    """The output has a row for each vector of x, a column for each of y; batches broadcast."""
    x, y = ctx.input("x").shape, ctx.input("y").shape
    if len(x) < 2 or len(y) < 2 or not dims_match(x[-1], y[-1]):
        ctx.fail(
            "x and y must be matrices, or batches of them, with equally many columns, got "
            f"{format_shape(x)} and {format_shape(y)}"
        )
    ctx.require(not math.isnan(ctx.attr("p")), "p must be a number or infinity, got NaN")
    batch = broadcast_shapes(x[:-2], y[:-2], ctx)
    ctx.set_output("out", (*batch, x[-2], y[-2]))


def _cdist(b: BodyContext) -> Expression:
    rank = {slot: rank_of(b, slot) for slot in ("x", "y")}
    x = read_wide(b, "x").then("unsqueeze", axis=[rank["x"] - 1])
    y = read_wide(b, "y").then("unsqueeze", axis=[rank["y"] - 2])
    return (x - y).then("norm", axis=[-1], p=float(b.attr("p")))


def _distances(b: BodyContext) -> str:
    return rounded_to(b, _cdist(b)).name


CDIST = (
    OpMaker("cdist")
    .add_comment(
        "Distances of all pairs of vectors, out[i, j] = sum(|x[i] - y[j]| ** p) ** (1 / p): "
        "for p = inf the greatest difference, for p = 0 the number of elements that differ. "
        "The gradient at equal vectors is 0."
    )
    .add_input("x", "float [..., n, k]: n vectors")
    .dtypes(*FLOATS)
    .add_input("y", "[..., m, k], dtype of x: m vectors")
    .same_dtype_as("x")
    .add_output("out", "[..., n, m], dtype of x")
    .same_dtype_as("x")
    .add_attr("p", float, "the exponent")
    .default(2.0)
    .at_least(0.0)
    .build(
        infer_shape=_cdist_shape,
        body=in_float32(_cdist),
        gradient=grad_op(
            "cdist_grad",
            needs=["x", "y", "out"],
            body=by_differentiating(_distances),
        ),
    )
)
