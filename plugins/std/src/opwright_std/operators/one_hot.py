"""Class ids as vectors with a single 1."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, no_gradient
from opwright_std.numerics.class_ids import flat_ids
from opwright_std.numerics.dtypes import INDICES, Array


def one_hot(x: Array, out: Array, *, depth: int, dtype: str) -> None:
    ids = flat_ids("one_hot: x", x, depth)
    out[...] = 0
    out.reshape(len(ids), depth)[np.arange(len(ids)), ids] = 1


def _one_hot_shape(ctx: InferContext) -> None:
    """The output has the shape of x, followed by depth."""
    ctx.set_output("out", (*ctx.input("x").shape, ctx.attr("depth")))


ONE_HOT = (
    OpMaker("one_hot")
    .add_comment("One-hot vectors, out[..., j] = 1 where x[...] = j, else 0.")
    .add_input("x", "int32 or int64 of any shape, class ids in [0, depth)")
    .dtypes(*INDICES)
    .add_output("out", "shape of x, then [depth]; of the given dtype")
    .same_dtype_as("dtype")
    .add_attr("depth", int, "number of classes")
    .as_shape_operand()
    .required()
    .at_least(1)
    .add_attr("dtype", str, "dtype of out")
    .default("float32")
    .as_dtype()
    .build(infer_shape=_one_hot_shape, gradient=no_gradient("class ids are not continuous"))
)
