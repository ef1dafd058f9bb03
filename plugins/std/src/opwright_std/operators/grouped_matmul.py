"""grouped_matmul and grouped_outer: a matrix product for each group of rows."""

from __future__ import annotations

import itertools

import numpy as np

from opwright.op import (
    GradientContext,
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
)
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array

_ROWS = (
    "Group g consists of the rows from offsets[g - 1], or 0 for the first group, to offsets[g], "
    "exclusive"
)


def grouped_matmul(
    x: Array, weight: Array, offsets: Array, out: Array, *, transpose_weight: bool
) -> None:
    matrices = weight.swapaxes(1, 2) if transpose_weight else weight
    end = 0
    for matrix, (begin, end) in zip(matrices, _groups("grouped_matmul", offsets, len(x))):
        np.matmul(x[begin:end], matrix, out=out[begin:end])
    out[end:] = 0


def grouped_outer(x: Array, y: Array, offsets: Array, out: Array) -> None:
    for matrix, (begin, end) in zip(out, _groups("grouped_outer", offsets, len(x))):
        np.matmul(x[begin:end].T, y[begin:end], out=matrix)


def _groups(who: str, offsets: Array, n: int) -> list[tuple[int, int]]:
    """Return the range of rows of each group as (start, end), with the end excluded."""
    wrong = (offsets < 0) | (offsets > n) | (np.diff(offsets, prepend=0) < 0)
    if wrong.any():
        raise ValueError(
            f"{who}: offsets must ascend in [0, {n}], got {offsets[wrong][0]} at "
            f"{int(wrong.argmax())}; pass the row at which each group ends, such as the "
            "cumulative sum of the numbers of rows"
        )
    return list(itertools.pairwise([0, *map(int, offsets)]))


def _matmul_shape(ctx: InferContext) -> None:
    """The output is [n, m] for x [n, k] and one matrix [k, m] per group."""
    x, weight = ctx.input("x").shape, ctx.input("weight").shape
    ctx.require(len(x) == 2, f"x must be [n, k], got {format_shape(x)}")
    ctx.require(len(weight) == 3, f"weight must be [groups, k, m], got {format_shape(weight)}")
    k, m = weight[:0:-1] if ctx.attr("transpose_weight") else weight[1:]
    if not dims_match(x[1], k):
        ctx.fail(
            f"the inner dimensions must be equal, got {x[1]} and {k} for x {format_shape(x)} "
            f"and weight {format_shape(weight)}; transpose_weight transposes each matrix"
        )
    _require_offsets(ctx)
    if not dims_match(weight[0], ctx.input("offsets").shape[0]):
        ctx.fail(
            "offsets must have an element for each matrix of weight, got "
            f"{format_shape(ctx.input('offsets').shape)} for weight {format_shape(weight)}"
        )
    ctx.set_output("out", (x[0], m))


def _outer_shape(ctx: InferContext) -> None:
    """The output is [groups, k, m] for x [n, k] and y [n, m]."""
    x, y = ctx.input("x").shape, ctx.input("y").shape
    if len(x) != 2 or len(y) != 2 or not dims_match(x[0], y[0]):
        ctx.fail(f"x must be [n, k] and y [n, m], got {format_shape(x)} and {format_shape(y)}")
    _require_offsets(ctx)
    ctx.set_output("out", (ctx.input("offsets").shape[0], x[1], y[1]))


def _require_offsets(ctx: InferContext) -> None:
    offsets = ctx.input("offsets").shape
    ctx.require(len(offsets) == 1, f"offsets must be [groups], got {format_shape(offsets)}")


def _product(g: GradientContext, x: str | None, weight: str | None, transpose_weight: bool) -> str:
    inputs = {"x": x, "weight": weight, "offsets": g.input("offsets")}
    return g.emit("grouped_matmul", inputs, attrs={"transpose_weight": transpose_weight})


def _matmul_gradient(g: GradientContext) -> None:
    """In each group dX = G W^T and dW = X^T G; for a transposed W, dX = G W and dW = G^T X."""
    (grad,) = g.filled_output_grads("out")
    is_transposed = bool(g.attr("transpose_weight"))
    if g.wants("x"):
        g.set_input_grad("x", _product(g, grad, g.input("weight"), not is_transposed))
    if g.wants("weight"):
        x, y = (grad, g.input("x")) if is_transposed else (g.input("x"), grad)
        inputs = {"x": x, "y": y, "offsets": g.input("offsets")}
        g.set_input_grad("weight", g.emit("grouped_outer", inputs))


def _outer_gradient(g: GradientContext) -> None:
    """In each group dX = Y G^T and dY = X G."""
    (grad,) = g.filled_output_grads("out")
    if g.wants("x"):
        g.set_input_grad("x", _product(g, g.input("y"), grad, True))
    if g.wants("y"):
        g.set_input_grad("y", _product(g, g.input("x"), grad, False))


GROUPED_MATMUL = (
    OpMaker("grouped_matmul")
    .add_comment(
        "Matrix product with one matrix per group of rows, out[i] = x[i] @ weight[g] for each row "
        f"i of group g, as the experts of a mixture compute. {_ROWS}. Groups may be empty. Rows "
        "from the last offset on belong to no group, and are 0 in out. As "
        "torch.nn.functional.grouped_mm, which leaves these rows undefined."
    )
    .add_input("x", "float [n, k], rows sorted by group")
    .dtypes(*FLOATS)
    .add_input("weight", "[groups, k, m], or [groups, m, k] with transpose_weight; dtype of x")
    .same_dtype_as("x")
    .add_input("offsets", "int32 or int64 [groups], ascending in [0, n]")
    .dtypes(*INDICES)
    .add_output("out", "[n, m], dtype of x")
    .same_dtype_as("x")
    .add_attr("transpose_weight", bool, "whether the last two axes of weight are swapped first")
    .default(False)
    .dispatch_on("x")
    .build(infer_shape=_matmul_shape, gradient=_matmul_gradient)
)

GROUPED_OUTER = (
    OpMaker("grouped_outer")
    .add_comment(
        "Sums of outer products over groups of rows, out[g] = sum(outer(x[i], y[i])) over the rows "
        "i of group g, which is the transpose of these rows of x, times these rows of y. "
        f"{_ROWS}. The sum of an empty group is 0. Rows from the last offset on belong to no "
        "group. As torch.nn.functional.grouped_mm of two matrices, the first one transposed."
    )
    .add_input("x", "float [n, k], rows sorted by group")
    .dtypes(*FLOATS)
    .add_input("y", "[n, m], dtype of x")
    .same_dtype_as("x")
    .add_input("offsets", "int32 or int64 [groups], ascending in [0, n]")
    .dtypes(*INDICES)
    .add_output("out", "[groups, k, m], dtype of x")
    .same_dtype_as("x")
    .dispatch_on("x")
    .build(infer_shape=_outer_shape, gradient=_outer_gradient)
)
