"""The maximum of each group of adjacent channels."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, normalize_axis
from opwright_std.compositions.axes import split_axis
from opwright_std.compositions.expression import shape_of
from opwright_std.numerics.dtypes import NUMBERS


def _maxout_shape(ctx: InferContext) -> None:
    """The output has one channel per `groups` channels of x."""
    shape, groups = list(ctx.input("x").shape), ctx.attr("groups")
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape))
    if shape[axis] >= 0:
        if shape[axis] % groups != 0:
            ctx.fail(f"groups must divide the {shape[axis]} channels of axis {axis}, got {groups}")
        shape[axis] //= groups
    if 0 in shape[axis + 1 :]:
        ctx.fail(f"x must have elements after axis {axis}, got {list(ctx.input('x').shape)}")
    ctx.set_output("out", shape)


def _maxout_body(b: BodyContext) -> None:
    shape, groups = shape_of(b, "x"), b.attr("groups")
    axis = b.attr("axis") % max(len(shape), 1)
    channels = shape[axis] // groups if shape[axis] > 0 else -1  # a 0 would copy the dimension of x
    apart = split_axis(b, b.input("x"), shape, axis, [channels, groups])
    b.emit("max", {"x": apart}, {"out": b.output("out")}, {"axis": [axis + 1]})


def _maxout_maker() -> OpMaker:
    maker = OpMaker("maxout").add_comment(
        "The maximum of each group of channels, out[n, c] = max(x[n, c * groups : (c + 1) * "
        "groups]). Equal maxima share the gradient equally."
    )
    maker.add_input("x", "[n, channels * groups, ...]").dtypes(*NUMBERS)
    maker.add_output("out", "[n, channels, ...], dtype of x").same_dtype_as("x")
    maker.add_attr("groups", int, "adjacent channels in a group")
    maker.required().at_least(1)
    return maker.add_attr("axis", int, "the axis of the channels").default(1)


MAXOUT = _maxout_maker().build(infer_shape=_maxout_shape, body=_maxout_body)
