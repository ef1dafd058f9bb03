"""reshape and reshape_like: the same elements in row-major order with a different shape."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, numel
from opwright_std.compositions.chain_rules import RESTORE_SHAPE
from opwright_std.numerics.dtypes import Array


def reshape(x: Array, out: Array, *, shape: tuple[int, ...]) -> None:
    np.copyto(out, x.reshape(out.shape))


def reshape_like(x: Array, out: Array) -> None:
    np.copyto(out, x.reshape(out.shape))


def _reshape_shape(ctx: InferContext) -> None:
    """The output has the given shape, with as many elements as x; one length may be -1."""
    shape, target = ctx.input("x").shape, ctx.attr("shape")
    if None in target:
        pairs = enumerate(target)
        ctx.set_output("out", [shape[axis] if dim == 0 else dim for axis, dim in pairs])
        return
    ctx.require(target.count(-1) <= 1, f"shape must have at most one -1, got {list(target)}")
    copied = {axis for axis, dim in enumerate(target) if dim == 0}
    if copied and max(copied) >= len(shape):
        ctx.fail(f"shape copies axis {max(copied)} of a {len(shape)}-d input, got {list(target)}")
    out = [shape[axis] if axis in copied else dim for axis, dim in enumerate(target)]
    # Copied dimensions occur on both sides and cancel, so the batch may be unknown.
    count = numel(dim for axis, dim in enumerate(shape) if axis not in copied)
    known = numel(dim for dim in target if dim > 0)
    if count >= 0:
        if -1 in target and count % known == 0:
            out[target.index(-1)] = count // known
        elif count != known and numel(shape) == numel(target) == 0:
            out = list(target)  # the computed length of an empty x
        elif count != known:
            ctx.fail(
                f"shape must have as many elements as {format_shape(shape)}, got {list(target)}"
            )
    ctx.set_output("out", out)


def _reshape_like_shape(ctx: InferContext) -> None:
    shape, like = ctx.input("x").shape, ctx.input("like").shape
    counts = numel(shape), numel(like)
    if counts[0] != counts[1] and -1 not in counts:
        ctx.fail(f"like must have as many elements as x, got {list(shape)} and {list(like)}")
    ctx.set_output("out", like)


RESHAPE = (
    OpMaker("reshape")
    .add_comment("The elements of x in row-major order under another shape.")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "the given shape, dtype of x")
    .same_dtype_as("x")
    .add_attr("shape", list[int], "shape of out; 0 copies the dimension of x, one -1 is computed")
    .as_shape_operand()
    .required()
    .at_least(-1)
    .build(infer_shape=_reshape_shape, gradient=RESTORE_SHAPE)
)

RESHAPE_LIKE = (
    OpMaker("reshape_like")
    .add_comment("The elements of x in row-major order under the shape of like.")
    .add_input("x", "any shape, any dtype")
    .add_input("like", "as many elements as x; only its shape is read")
    .as_shape_only()
    .add_output("out", "shape of like, dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_reshape_like_shape, gradient=RESTORE_SHAPE)
)
