"""expand: a tensor broadcast to a shape."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import read
from opwright_std.numerics.dtypes import Array


def expand(x: Array, out: Array, *, shape: tuple[int, ...]) -> None:
    np.copyto(out, x)


def _expand_shape(ctx: InferContext) -> None:
    """The output has the given shape, to which x must broadcast."""
    shape, target = ctx.input("x").shape, ctx.attr("shape")
    added = len(target) - len(shape)
    if added < 0 or -1 in target[:added]:
        ctx.fail(f"shape must have a length for every new axis, got {list(target)}")
    out = list(target)
    for axis, dim in enumerate(shape, added):
        if out[axis] is None:
            out[axis] = None if dim == 1 else dim
        elif out[axis] == -1:
            out[axis] = dim
        elif dim not in (1, -1, out[axis]):
            ctx.fail(f"x of shape {format_shape(shape)} must broadcast, got shape={list(target)}")
    ctx.set_output("out", out)


EXPAND = (
    OpMaker("expand")
    .add_comment("Broadcast x to a shape, as NumPy's broadcast_to.")
    .add_input("x", "any shape that broadcasts to the given one, any dtype")
    .add_output("out", "the given shape, dtype of x")
    .same_dtype_as("x")
    .add_attr("shape", list[int], "shape of out; -1 keeps the dimension of x")
    .as_shape_operand()
    .required()
    .at_least(-1)
    .build(
        infer_shape=_expand_shape,
        gradient=chain_rule(lambda grad, g: grad.like(read(g, "x"), "sum_like")),
    )
)
