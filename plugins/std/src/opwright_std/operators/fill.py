"""fill and fill_like: tensors filled with one value."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, no_gradient
from opwright_std.numerics.dtypes import Array

_VALUE = "the value, representable in the dtype; exact for integer dtypes"


def fill(out: Array, *, shape: tuple[int, ...], value: float, dtype: str) -> None:
    out.fill(_element(value, out))


def _element(value: float, out: Array) -> float:
    return int(value) if out.dtype.kind in "iu" else value


def fill_like(out: Array, *, value: float) -> None:
    out.fill(_element(value, out))


def _fill_shape(ctx: InferContext) -> None:
    """The output has the given shape; its dtype must represent the value."""
    ctx.require_held("value", ctx.attr("dtype"))
    ctx.set_output("out", ctx.attr("shape"))


FILL = (
    OpMaker("fill")
    .add_comment("A tensor of a given shape and dtype filled with one value.")
    .add_output("out", "the given shape and dtype")
    .same_dtype_as("dtype")
    .add_attr("shape", list[int], "shape of out")
    .as_shape_operand()
    .required()
    .at_least(0)
    .add_attr("value", float, _VALUE)
    .default(0.0)
    .add_attr("dtype", str, "dtype of out")
    .default("float32")
    .as_dtype()
    .dispatch_on("dtype")
    .build(infer_shape=_fill_shape, gradient=no_gradient("it has no input"))
)


def _fill_like_shape(ctx: InferContext) -> None:
    """The output has the shape of x, whose dtype must represent the value."""
    ctx.require_held("value", ctx.input("x").dtype)
    ctx.set_output("out", ctx.input("x").shape)


FILL_LIKE = (
    OpMaker("fill_like")
    .add_comment("A tensor of the shape and dtype of x filled with one value.")
    .add_input("x", "any shape, any dtype; only its shape is read")
    .as_shape_only()
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("value", float, _VALUE)
    .default(0.0)
    .build(infer_shape=_fill_like_shape, gradient=no_gradient("no element of x is read"))
)
