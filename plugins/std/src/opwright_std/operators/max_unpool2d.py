"""The inverse of maximum pooling: each maximum back at its place, zero elsewhere."""

from __future__ import annotations

from math import prod

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, linear_in
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    Ints,
    add_data_format,
    channels_first,
    image_dims,
    set_images,
    spatial_attr,
)

_MAX_PLANE = 2**31 - 1


def _planes(images: Array, data_format: str) -> Array:
    """Return images as [n * channels, pixels], a copy where the channels are last."""
    first = channels_first(images, data_format)
    return first.reshape(prod(first.shape[:2]), prod(first.shape[2:]))


def max_unpool2d(
    x: Array, index: Array, out: Array, *, output_size: Ints, data_format: str
) -> None:
    check_ids("max_unpool2d: index", index, prod(output_size))
    maxima, places = _planes(x, data_format), _planes(index, data_format)
    planes = np.zeros((len(maxima), prod(output_size)), x.dtype)
    # Element by element in order, so that of equal places the last one stays.
    for element in range(maxima.shape[1]):
        planes[np.arange(len(planes)), places[:, element]] = maxima[:, element]
    result = channels_first(out, data_format)
    result[...] = planes.reshape(result.shape)


def max_unpool2d_grad(
    index: Array, out_grad: Array, x_grad: Array, *, data_format: str, **_: object
) -> None:
    slopes, places = _planes(out_grad, data_format), _planes(index, data_format)
    check_ids("max_unpool2d_grad: index", index, slopes.shape[1])
    result = channels_first(x_grad, data_format)
    result[...] = np.take_along_axis(slopes, places.astype(np.int64), 1).reshape(result.shape)


def _unpool_shape(ctx: InferContext) -> None:
    """The output has output_size in the place of height and width."""
    n, channels, *_ = image_dims(ctx)
    ctx.require_shape("index", ctx.input("x").shape)
    size = spatial_attr(ctx, "output_size")
    if prod(size) > _MAX_PLANE:
        ctx.fail(f"output_size must hold at most {_MAX_PLANE} elements, got {list(size)}")
    set_images(ctx, "out", n, channels, size)


def _unpool_maker() -> OpMaker:
    maker = OpMaker("max_unpool2d").add_comment(
        "The inverse of max_pool2d: out[n, c] is 0 but at the places index[n, c], row * width + "
        "column of out, where x[n, c] is. Of several elements with one place the last one stays; "
        "each of them gets the gradient of that place, as in PyTorch."
    )
    maker.add_input("x", "float images, [n, channels, height, width] or as data_format says")
    maker.dtypes(*FLOATS)
    maker.add_input("index", "shape of x: places in [0, height * width) of out").dtypes("int32")
    maker.add_output("out", "[n, channels, *output_size] or as data_format says, dtype of x")
    maker.same_dtype_as("x")
    maker.add_attr("output_size", list[int], "height and width of out", 2).required().at_least(1)
    return add_data_format(maker)


MAX_UNPOOL2D = _unpool_maker().build(
    infer_shape=_unpool_shape,
    gradient=grad_op("max_unpool2d_grad", needs=["index"], gradient=linear_in("x")),
)
