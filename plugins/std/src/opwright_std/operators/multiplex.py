"""multiplex: select each row from one of several tensors."""

from __future__ import annotations

from functools import reduce

from opwright.op import (
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    grad_op,
    linear_in,
    merge_dims,
    shapes_match,
)
from opwright_std.numerics.class_ids import flat_ids
from opwright_std.numerics.dtypes import INDICES, Array


def multiplex(index: Array, x: tuple[Array, ...], out: Array) -> None:
    chosen = flat_ids("multiplex: index", index, len(x))
    for which, rows in enumerate(x):
        taken = chosen == which
        out[taken] = rows[taken]


def multiplex_grad(index: Array, out_grad: Array, x_grad: tuple[Array, ...]) -> None:
    chosen = flat_ids("multiplex: index", index, len(x_grad))
    for which, grad in enumerate(x_grad):
        taken = chosen == which
        grad[...] = 0
        grad[taken] = out_grad[taken]


def _multiplex_shape(ctx: InferContext) -> None:
    """The output has the shape of each x; index selects one of them for each row."""
    shapes = [meta.shape for meta in ctx.inputs("x")]
    index = ctx.input("index").shape
    for shape in shapes:
        if not shape or not shapes_match(shape, shapes[0]):
            pair = f"{format_shape(shapes[0])} and {format_shape(shape)}"
            ctx.fail(f"all x must have the same shape with at least 1 axis, got {pair}")
    is_vector = len(index) == 1 or (len(index) == 2 and dims_match(index[1], 1))
    if not is_vector or not dims_match(index[0], shapes[0][0]):
        rows = shapes[0][0]
        ctx.fail(f"index must have the shape [{rows}] or [{rows}, 1], got {format_shape(index)}")
    merged: tuple[int, ...] = reduce(lambda a, b: tuple(map(merge_dims, a, b)), shapes)
    ctx.set_output("out", merged)


MULTIPLEX = (
    OpMaker("multiplex")
    .add_comment("Rows of several tensors, out[i] = x[index[i]][i].")
    .add_input("index", "int32 or int64, [n] or [n, 1]: the x that row i comes from")
    .dtypes(*INDICES)
    .add_input("x", "one or more tensors of one shape, n rows, and of one dtype")
    .as_duplicable()
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x[0]")
    .same_dtype_as("x")
    .dispatch_on("x")
    .build(
        infer_shape=_multiplex_shape,
        gradient=grad_op("multiplex_grad", needs=["index"], gradient=linear_in("x")),
    )
)
