"""Fused chains of element-wise operators."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, broadcast_shapes
from opwright_std.numerics.dtypes import FLOATS


def _check_operands(ctx: InferContext) -> None:
    """Check the lengths and ranges of the attributes, but not the names of the functions."""
    count, operands = len(ctx.attr("functions")), ctx.attr("operands")
    known = len(ctx.inputs("x"))
    ctx.require(
        count <= len(operands) <= 2 * count,
        f"operands must be one or two for each of {count} functions, got {len(operands)}",
    )
    limits = (*range(known, known + count - 1), *([known + count - 1] * (count + 1)))
    fits = [0 <= n < limit for n, limit in zip(operands, limits)]
    if not all(fits):
        i = fits.index(False)
        got = f"got {operands[i]} at {i}"
        ctx.require(False, f"operands must be inputs, or results of previous functions, {got}")
    given = len(ctx.attr("parameters"))
    ctx.require(given == 2 * count, f"parameters must be {2 * count} numbers, got {given}")


def _chain_shape(ctx: InferContext) -> None:
    _check_operands(ctx)
    first, *others = (meta.shape for meta in ctx.inputs("x"))
    shape = first
    for other in others:
        shape = broadcast_shapes(shape, other, ctx)
    ctx.set_output("out", shape)


ELEMENTWISE_CHAIN = (
    OpMaker("std.elementwise_chain")
    .add_comment(
        "Fused element-wise functions, each of inputs and of results of previous functions; out "
        "is the last result."
    )
    .add_input("x", "tensors that broadcast together, float")
    .as_duplicable()
    .dtypes(*FLOATS)
    .same_dtype_as("x")
    .add_output("out", "the broadcast shape, dtype of x")
    .same_dtype_as("x")
    .add_attr("functions", list[str], "operator types, in order of application")
    .required()
    .add_attr(
        "operands",
        list[int],
        "operands of each function in order: indices into x, followed by results of functions",
    )
    .required()
    .add_attr("parameters", list[float], "two numbers per function, 0 for none")
    .required()
    .build(infer_shape=_chain_shape, plan_only=True)
)
