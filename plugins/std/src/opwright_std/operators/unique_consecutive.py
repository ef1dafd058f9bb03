"""unique_consecutive: runs of equal elements; their number depends on the values."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, no_gradient, normalize_axis
from opwright_std.numerics.dtypes import NUMBERS, Array
from opwright_std.operators.nonzero import Resizable


def unique_consecutive(
    x: Array,
    out: Resizable,
    inverse: Array | None,
    counts: Resizable | None,
    *,
    axis: int | None,
) -> None:
    lines = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    lines = lines.reshape(len(lines), lines.size // max(len(lines), 1))
    is_first = np.ones(len(lines), bool)
    is_first[1:] = (lines[1:] != lines[:-1]).any(axis=1)
    starts = np.flatnonzero(is_first)
    kept = x.reshape(-1)[starts] if axis is None else np.take(x, starts, axis)
    out.resize(kept.shape)[...] = kept
    if inverse is not None:
        inverse[...] = (np.cumsum(is_first) - 1).reshape(inverse.shape)
    if counts is not None:
        counts.resize(starts.shape)[...] = np.diff(starts, append=len(lines))


def _runs_shape(ctx: InferContext) -> None:
    """The output has one element per run, inverse one per element of x."""
    shape, axis = ctx.input("x").shape, ctx.attr("axis")
    out, inverse = [-1], shape
    if axis is not None:
        axis = normalize_axis(ctx, axis, len(shape))
        out, inverse = list(shape), (shape[axis],)
        out[axis] = -1
    ctx.set_output("out", out)
    ctx.set_output("inverse", inverse)
    ctx.set_output("counts", (-1,))


UNIQUE_CONSECUTIVE = (
    OpMaker("unique_consecutive")
    .add_comment(
        "One element of each run of equal elements, in order: x is out[inverse]. Without an axis "
        "x is flattened; with one, slices along it are compared. NaN equals nothing."
    )
    .add_input("x", "any shape")
    .dtypes(*NUMBERS, "bool")
    .add_output("out", "[n], or x with n slices; dtype of x; n is known after the kernel ran")
    .same_dtype_as("x")
    .add_output(
        "inverse", "int64, shape of x or its length: index of the run of each element or slice"
    )
    .dtypes("int64")
    .as_optional()
    .add_output("counts", "int64 [n], length of each run")
    .dtypes("int64")
    .as_optional()
    .add_attr("axis", int, "the axis of compared slices; absent: elements are compared")
    .dynamic_output()
    .build(infer_shape=_runs_shape, gradient=no_gradient("it is not continuous"))
)
