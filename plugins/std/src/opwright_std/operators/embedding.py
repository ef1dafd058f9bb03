"""Embedding: look-up of vectors in a table by id."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, linear_in
from opwright_std.numerics.add_slices import add_slices
from opwright_std.numerics.class_ids import check_ids, flat_ids
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array


def embedding(weight: Array, index: Array, out: Array, *, padding_index: int, sparse: bool) -> None:
    check_ids("embedding: index", index, len(weight))
    # mode="clip" writes into out without a copy; after the check nothing is clipped.
    np.take(weight, index, axis=0, out=out, mode="clip")
    if padding_index >= 0:
        out[index == padding_index] = 0


def embedding_grad(
    index: Array, out_grad: Array, weight_grad: Array, *, padding_index: int, sparse: bool
) -> None:
    ids = flat_ids("embedding: index", index, len(weight_grad))
    add_slices(out_grad, ids, weight_grad)
    if 0 <= padding_index < len(weight_grad):
        weight_grad[padding_index] = 0


def _embedding_shape(ctx: InferContext) -> None:
    """The output has the shape of index, followed by the row length of weight."""
    weight, padding = ctx.input("weight").shape, ctx.attr("padding_index")
    ctx.require(len(weight) == 2, f"weight must be [ids, size], got {format_shape(weight)}")
    ctx.require(
        padding < weight[0] or weight[0] == -1,
        f"padding_index must be in [-1, {weight[0]}), got padding_index={padding}",
    )
    ctx.set_output("out", (*ctx.input("index").shape, weight[1]))


EMBEDDING = (
    OpMaker("embedding")
    .add_comment(
        "Look-up in a table, out[..., :] = weight[index[...], :]. The vector of padding_index is "
        "0, whatever weight contains there, and has no gradient."
    )
    .add_input("weight", "float [ids, size]")
    .dtypes(*FLOATS)
    .add_input("index", "int32 or int64 of any shape, in [0, ids)")
    .dtypes(*INDICES)
    .add_output("out", "shape of index, then [size]; dtype of weight")
    .same_dtype_as("weight")
    .add_attr("padding_index", int, "the id whose vector is 0; -1: none")
    .default(-1)
    .at_least(-1)
    .add_attr("sparse", bool, "whether an optimizer updates only the rows in index")
    .default(False)
    .build(
        infer_shape=_embedding_shape,
        gradient=grad_op("embedding_grad", needs=["index"], gradient=linear_in("weight")),
    )
)
