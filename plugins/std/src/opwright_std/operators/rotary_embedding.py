"""Rotary position embedding: pairs of elements are rotated by position-dependent angles."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    InferContext,
    OpMaker,
    Shape,
    dims_match,
    format_shape,
    grad_op,
    linear_in,
    shapes_match,
)
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array


def _rows_of(table: Array, index: Array | None, x: Array) -> Array:
    """Return the table row of each position of x, broadcast to its axes."""
    if index is None:
        return table[: x.shape[-2]]
    check_ids("rotary_embedding: index", index, table.shape[0])
    rows = table[index]
    # [n, t, half] is reshaped to [n, 1, ..., t, half] with the rank of x.
    return (
        rows
        if index.ndim == 1
        else rows.reshape((x.shape[0], *(1 for _ in x.shape[1:-2]), *rows.shape[1:]))
    )


def _turn(
    x: Array, cos: Array, sin: Array, index: Array | None, out: Array, interleaved: bool, sign: int
) -> None:
    half = cos.shape[1]
    np.copyto(out, x)
    cosine, sine = _rows_of(cos, index, x), sign * _rows_of(sin, index, x)
    if interleaved:
        first, second = (slice(k, 2 * half, 2) for k in (0, 1))
    else:
        first, second = slice(0, half), slice(half, 2 * half)
    a, b = x[..., first], x[..., second]
    out[..., first] = a * cosine - b * sine
    out[..., second] = b * cosine + a * sine


def rotary_embedding(
    x: Array, cos: Array, sin: Array, index: Array | None, out: Array, *, interleaved: bool
) -> None:
    _turn(x, cos, sin, index, out, interleaved, 1)


def rotary_embedding_grad(
    cos: Array,
    sin: Array,
    index: Array | None,
    out_grad: Array,
    x_grad: Array,
    *,
    interleaved: bool,
) -> None:
    _turn(out_grad, cos, sin, index, x_grad, interleaved, -1)


def _check_index(ctx: InferContext, x: Shape) -> None:
    index = ctx.input("index").shape
    wanted = [x[-2:-1]] + ([(x[0], x[-2])] if len(x) > 2 else [])
    if not any(len(index) == len(w) and shapes_match(index, w) for w in wanted):
        listed = " or ".join(map(format_shape, wanted))
        ctx.fail(f"index must be {listed} for x {format_shape(x)}, got {format_shape(index)}")


def _rotary_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    x, cos = ctx.input("x").shape, ctx.input("cos").shape
    if len(x) < 2:
        ctx.fail(f"x must be [..., t, size], got {format_shape(x)}")
    if len(cos) != 2:
        ctx.fail(f"cos must be [positions, half], got {format_shape(cos)}")
    ctx.require_shape("sin", cos)
    if cos[1] >= 0 and x[-1] >= 0 and 2 * cos[1] > x[-1]:
        ctx.fail(f"cos must have at most {x[-1] // 2} columns, half as many as x, got {cos[1]}")
    if ctx.has_input("index"):
        _check_index(ctx, x)
    elif cos[0] >= 0 and x[-2] >= 0 and not dims_match(cos[0], x[-2]) and cos[0] < x[-2]:
        ctx.fail(f"cos must have a row for each of the {x[-2]} positions of x, got {cos[0]}")
    ctx.set_output("out", x)


ROTARY_EMBEDDING = (
    OpMaker("rotary_embedding")
    .add_comment(
        "Rotary position embedding: each pair (a, b) of the first 2 * half elements becomes "
        "(a * cos - b * sin, b * cos + a * sin), with the row of cos and sin for its position; "
        "the other elements are copied. A pair is elements i and half + i, or with interleaved "
        "2 * i and 2 * i + 1. The tables have no gradient. Su et al., 2021."
    )
    .add_input("x", "float [..., t, size]")
    .dtypes(*FLOATS)
    .add_input("cos", "[positions, half], cosines of position * frequency; half up to size / 2")
    .same_dtype_as("x")
    .add_input("sin", "[positions, half], sines of the same angles")
    .same_dtype_as("x")
    .add_input("index", "positions [t], or [n, t] with n the first axis of x; absent: 0 to t - 1")
    .dtypes(*INDICES)
    .as_optional()
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("interleaved", bool, "whether the elements of a pair are adjacent")
    .default(False)
    .build(
        infer_shape=_rotary_shape,
        gradient=grad_op(
            "rotary_embedding_grad",
            needs=["cos", "sin", "index"],
            no_grad=["cos", "sin"],
            gradient=linear_in("x"),
        ),
    )
)
