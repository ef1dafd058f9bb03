"""diff: differences of neighbors along an axis."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, merge_dims, normalize_axis, shapes_match
from opwright_std.compositions.expression import Expression
from opwright_std.numerics.dtypes import NUMBERS
from opwright_std.operators.reduction import known_meta

_SLOTS = ("prepend", "x", "append")


def _diff_shape(ctx: InferContext) -> None:
    """The output has n fewer elements along the axis, at least 0."""
    x = ctx.input("x")
    ctx.require(len(x.shape) > 0, "x must have at least 1 dimension, got a scalar")
    axis = normalize_axis(ctx, ctx.attr("axis"), len(x.shape))
    shape, length, n = list(x.shape), x.shape[axis], ctx.attr("n")
    for slot in ("prepend", "append"):
        if not ctx.has_input(slot):
            continue
        other = list(ctx.input(slot).shape)
        rest = (*shape[:axis], *shape[axis + 1 :])
        fits = len(other) == len(shape)
        if not fits or not shapes_match(rest, (*other[:axis], *other[axis + 1 :])):
            ctx.fail(f"{slot} must have the shape of x except along axis {axis}, got {other}")
        shape = list(map(merge_dims, shape, [*other[:axis], shape[axis], *other[axis + 1 :]]))
        if n > 0:
            length = -1 if -1 in (length, other[axis]) else length + other[axis]
    shape[axis] = -1 if length == -1 else 0 if length < n else length - n
    ctx.set_output("out", shape)


def _diff_body(b: BodyContext) -> None:
    meta = known_meta(b)
    axis = b.attr("axis") % len(meta.shape)
    slots = _SLOTS if b.attr("n") > 0 else ("x",)
    parts = [b.inputs(slot)[0] for slot in slots if b.has_input(slot)]
    joined = parts[0] if len(parts) == 1 else b.emit("concat", {"x": parts}, attrs={"axis": axis})
    x, function = Expression(b, joined), "not_equal" if meta.dtype == "bool" else "subtract"
    for _ in range(b.attr("n")):
        above = x.then("slice", axes=[axis], starts=[1], ends=[2**62])
        below = x.then("slice", axes=[axis], starts=[0], ends=[-1])
        x = above.with_(function, below)
    b.set_output("out", x.name)


DIFF = (
    OpMaker("diff")
    .add_comment(
        "Differences of neighbors along an axis, out[i] = x[i + 1] - x[i], applied n times, as "
        "numpy.diff, which gives x itself for n = 0; for bool, whether they differ."
    )
    .add_input("x", "at least 1-d")
    .dtypes(*NUMBERS, "bool")
    .add_input("prepend", "prepended to x along the axis, other axes as in x")
    .same_dtype_as("x")
    .as_optional()
    .add_input("append", "appended to x")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "x with n fewer elements along the axis; dtype of x")
    .same_dtype_as("x")
    .add_attr("n", int, "number of times that differences are taken")
    .default(1)
    .between(0, 1000)
    .add_attr("axis", int, "the axis")
    .default(-1)
    .build(infer_shape=_diff_shape, body=_diff_body)
)
