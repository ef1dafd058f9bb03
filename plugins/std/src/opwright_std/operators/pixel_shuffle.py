"""Channels moved into height and width, for sub-pixel convolution."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker
from opwright_std.compositions.axes import split_axis
from opwright_std.numerics.windows import (
    add_data_format,
    channels_first_shape,
    image_dims,
    is_channels_last,
    set_images,
)


def _shuffle_shape(ctx: InferContext) -> None:
    """The output has factor times the height and width, and 1 / factor**2 of the channels."""
    n, channels, *sizes = image_dims(ctx)
    factor = ctx.attr("factor")
    if channels >= 0 and channels % factor**2 != 0:
        ctx.fail(f"the channels of x must be a multiple of {factor} * {factor}, got {channels}")
    channels = channels // factor**2 if channels >= 0 else -1
    set_images(ctx, "out", n, channels, [size * factor if size >= 0 else -1 for size in sizes])


def _shuffle_body(b: BodyContext) -> None:
    data_format, factor = b.attr("data_format"), b.attr("factor")
    n, channels, height, width = channels_first_shape(b)
    made = channels // factor**2 if channels > 0 else -1  # a 0 would copy a dimension of x
    if is_channels_last(data_format):
        shape, axis = (n, height, width, channels), 3
        order, joined = [0, 1, 4, 2, 5, 3], 1
    else:
        shape, axis = (n, channels, height, width), 1
        order, joined = [0, 1, 4, 2, 5, 3], 2
    split = split_axis(b, b.input("x"), shape, axis, [made, factor, factor])
    moved = b.emit("transpose", {"x": split}, attrs={"axes": order})
    high = b.emit("flatten", {"x": moved}, attrs={"start_axis": joined, "stop_axis": joined + 1})
    out = {"out": b.output("out")}
    b.emit("flatten", {"x": high}, out, {"start_axis": joined + 1, "stop_axis": joined + 2})


def _shuffle_maker() -> OpMaker:
    maker = OpMaker("pixel_shuffle").add_comment(
        "Channels moved into pixels, out[n, c, i, j] = x[n, c * factor ** 2 + i % factor * factor "
        "+ j % factor, i // factor, j // factor]."
    )
    maker.add_input("x", "[n, channels * factor^2, height, width] or per data_format")
    maker.add_output(
        "out",
        "[n, channels, height * factor, width * factor] or per data_format, dtype of x",
    ).same_dtype_as("x")
    maker.add_attr("factor", int, "factor of height and width").required()
    maker.between(1, 2**15)
    return add_data_format(maker)


PIXEL_SHUFFLE = _shuffle_maker().build(infer_shape=_shuffle_shape, body=_shuffle_body)
