"""flatten: merge adjacent axes."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, numel
from opwright_std.compositions.chain_rules import RESTORE_SHAPE
from opwright_std.numerics.dtypes import Array


def flatten(x: Array, out: Array, *, start_axis: int, stop_axis: int) -> None:
    np.copyto(out, x.reshape(out.shape))


def _flatten_shape(ctx: InferContext) -> None:
    """The axes from start_axis to stop_axis become one axis of the output."""
    shape = ctx.input("x").shape
    rank = max(len(shape), 1)  # a scalar becomes one axis, for any attributes
    axes = {name: ctx.attr(name) for name in ("start_axis", "stop_axis")}
    start, stop = (axis + rank if axis < 0 else axis for axis in axes.values())
    # After the last axis there are no axes to merge; their empty product is 1.
    behind = start == rank and stop == rank - 1
    if not (0 <= start <= stop < rank or behind):
        given = ", ".join(f"{name}={axis}" for name, axis in axes.items())
        ctx.fail(
            f"start_axis must not be after stop_axis, and both must be in [{-rank}, {rank}) for x "
            f"{format_shape(shape)}, got {given}"
        )
    joined = (*shape[:start], numel(shape[start : stop + 1]), *shape[stop + 1 :])
    ctx.set_output("out", joined if shape else (1,))


FLATTEN = (
    OpMaker("flatten")
    .add_comment(
        "Merges the axes from start_axis to stop_axis, both included, in row-major order. A "
        "start_axis after the last axis adds one of length 1: a vector becomes [n, 1]. A scalar "
        "becomes [1]."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape of x with one axis instead of those, dtype of x")
    .same_dtype_as("x")
    .add_attr("start_axis", int, "first merged axis; negative counts from the end")
    .default(1)
    .add_attr("stop_axis", int, "last merged axis; negative counts from the end")
    .default(-1)
    .build(infer_shape=_flatten_shape, gradient=RESTORE_SHAPE)
)
