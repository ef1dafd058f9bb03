"""squeeze and unsqueeze: remove and add axes of length 1."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, dims_match, normalize_axes
from opwright_std.compositions.chain_rules import RESTORE_SHAPE
from opwright_std.numerics.dtypes import Array


def squeeze(x: Array, out: Array, *, axis: tuple[int, ...]) -> None:
    np.copyto(out, x.reshape(out.shape))


def unsqueeze(x: Array, out: Array, *, axis: tuple[int, ...]) -> None:
    np.copyto(out, x.reshape(out.shape))


def _squeeze_shape(ctx: InferContext) -> None:
    """The output is x without the axes, by default all of length 1."""
    shape, axis = ctx.input("x").shape, ctx.attr("axis")
    if not axis:
        if -1 in shape:
            ctx.fail(f"axis must be given if a dimension is unknown, got shape {list(shape)}")
        axis = [i for i, dim in enumerate(shape) if dim == 1]
    gone = set(normalize_axes(ctx, axis, len(shape), scalar=True)) if axis else set()
    for i in gone:
        if not dims_match(shape[i], 1):
            ctx.fail(f"axis must name axes of length 1, got axis {i} of shape {list(shape)}")
    ctx.set_output("out", [dim for i, dim in enumerate(shape) if i not in gone])


def _unsqueeze_shape(ctx: InferContext) -> None:
    """The output is x with axes of length 1 at the given positions in out."""
    shape, axis = ctx.input("x").shape, ctx.attr("axis")
    rank = len(shape) + len(axis)
    added = set(normalize_axes(ctx, axis, rank)) if axis else set()
    dims = iter(shape)
    ctx.set_output("out", [1 if i in added else next(dims) for i in range(rank)])


SQUEEZE = (
    OpMaker("squeeze")
    .add_comment("Removes axes of length 1.")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape of x without the axes, dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", list[int], "axes to remove; none given: all of length 1")
    .default([])
    .build(infer_shape=_squeeze_shape, gradient=RESTORE_SHAPE)
)

UNSQUEEZE = (
    OpMaker("unsqueeze")
    .add_comment("Adds axes of length 1.")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape of x with 1 at the new axes, dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", list[int], "positions of the new axes in out")
    .required()
    .build(infer_shape=_unsqueeze_shape, gradient=RESTORE_SHAPE)
)
