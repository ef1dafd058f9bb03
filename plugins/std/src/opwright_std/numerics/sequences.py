"""Sequences of different lengths in one padded array: valid steps and shape checks."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, dims_match, format_shape, merge_dims
from opwright_std.numerics.dtypes import Array
from opwright_std.numerics.lengths import read_lengths


def valid_steps(op_type: str, lengths: Array, steps: int) -> Array:
    """Return the mask of valid steps, bool [n, steps]."""
    counts = read_lengths(f"{op_type}: lengths", lengths, steps, len(lengths))
    return np.asarray(np.arange(steps) < counts[:, None])


def check_vector(ctx: InferContext, lengths: tuple[int, ...]) -> None:
    """Fail unless lengths are [n]."""
    ctx.require(len(lengths) == 1, f"lengths must have the shape [n], got {format_shape(lengths)}")


def infer_padded(ctx: InferContext) -> tuple[int, ...]:
    """Return the shape of x, [n, t, ...]; fail unless lengths are [n]."""
    x, lengths = ctx.input("x").shape, ctx.input("lengths").shape
    if len(x) < 2:
        ctx.fail(f"x must have the shape [n, t, ...], got {format_shape(x)}")
    if len(lengths) != 1 or not dims_match(lengths[0], x[0]):
        ctx.fail(f"lengths must have the shape [{x[0]}], got {format_shape(lengths)}")
    return (merge_dims(x[0], lengths[0]), *x[1:])


def infer_steps(ctx: InferContext) -> tuple[int, int]:
    """Return n and t: `lengths` determines n, and `max_length` or `like` determines t."""
    lengths = ctx.input("lengths").shape
    check_vector(ctx, lengths)
    longest = ctx.attr("max_length")
    if (longest is None) != ctx.has_input("like"):
        ctx.fail("one of max_length and like must be given, got " + _given(longest))
    if longest is not None:
        return lengths[0], longest
    like = ctx.input("like").shape
    if len(like) < 2 or not dims_match(like[0], lengths[0]):
        ctx.fail(f"like must have the shape [{lengths[0]}, t, ...], got {format_shape(like)}")
    return merge_dims(lengths[0], like[0]), like[1]


def _given(longest: int | None) -> str:
    return "none of them" if longest is None else "both"
