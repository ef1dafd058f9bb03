"""Channels moved into the height and the width: what sub-pixel convolution ends with."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker
from opwright_std.numerics.windows import (
    add_data_format,
    channels_first_shape,
    image_dims,
    is_channels_last,
    require_elements,
    set_images,
)


def _shuffle_shape(ctx: InferContext) -> None:
    """The output has factor times the height and the width, and its square less channels."""
    n, channels, *sizes = image_dims(ctx)
    factor = ctx.attr("factor")
    require_elements(ctx, sizes)
    if channels >= 0 and channels % factor**2:
        ctx.fail(f"the channels of x must be a multiple of {factor} * {factor}, got {channels}")
    channels = channels // factor**2 if channels >= 0 else -1
    set_images(ctx, "out", n, channels, [size * factor if size >= 0 else -1 for size in sizes])


def _shuffle_body(b: BodyContext) -> None:
    data_format, factor = b.attr("data_format"), b.attr("factor")
    channels, height, width = channels_first_shape(b, "x")[1:]
    made = channels // factor**2 if channels > 0 else -1  # a 0 would copy a dim of x
    if is_channels_last(data_format):
        apart = [0, 0, 0, made, factor, factor]
        order = [0, 1, 4, 2, 5, 3]
        shape = [0, *_times(factor, height, width), made]
    else:
        apart = [0, made, factor, factor, height, width]
        order = [0, 1, 4, 2, 5, 3]
        shape = [0, made, *_times(factor, height, width)]
    split = b.emit("reshape", {"x": b.input("x")}, attrs={"shape": apart})
    moved = b.emit("transpose", {"x": split}, attrs={"axes": order})
    b.emit("reshape", {"x": moved}, {"out": b.output("out")}, {"shape": shape})


def _times(factor: int, *sizes: int) -> list[int]:
    return [size * factor if size >= 0 else -1 for size in sizes]


def _shuffle_maker() -> OpMaker:
    maker = OpMaker("pixel_shuffle").add_comment(
        "Channels moved into pixels, out[n, c, i, j] = x[n, c * factor ** 2 + i % factor * factor "
        "+ j % factor, i // factor, j // factor]. At most one of height and width may be unknown "
        "when the operator is run or differentiated."
    )
    maker.add_input("x", "[n, channels * factor^2, height, width] or as data_format says")
    maker.add_output(
        "out",
        "[n, channels, height * factor, width * factor] or as data_format says, dtype of x",
    ).same_dtype_as("x")
    maker.add_attr("factor", int, "by how much the height and the width grow").required()
    maker.between(1, 2**15)
    return add_data_format(maker)


PIXEL_SHUFFLE = _shuffle_maker().build(infer_shape=_shuffle_shape, body=_shuffle_body)
