"""The inverse of max pooling: values are placed at their indices, with zeros elsewhere."""

from __future__ import annotations

from math import prod

import numpy as np

from opwright.op import BodyContext, InferContext, OpMaker, grad_op, linear_in
from opwright_std.compositions.axes import split_axis
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    Ints,
    add_data_format,
    axis_names,
    channels_first,
    channels_first_shape,
    image_dims,
    is_channels_last,
    lift,
    lift_attrs,
    set_images,
    set_lines,
    spatial_attr,
)

_MAX_PLANE = 2**31 - 1


def _planes(images: Array, data_format: str) -> Array:
    """Return images as [n * channels, pixels], a copy if the channels are last."""
    first = channels_first(images, data_format)
    return first.reshape(prod(first.shape[:2]), prod(first.shape[2:]))


def max_unpool2d(
    x: Array, index: Array, out: Array, *, output_size: Ints, data_format: str
) -> None:
    check_ids("max_unpool2d: index", index, prod(output_size))
    maxima, places = _planes(x, data_format), _planes(index, data_format)
    planes = np.zeros((len(maxima), prod(output_size)), x.dtype)
    # Elements are written in order, so the last of repeated indices wins.
    for element in range(maxima.shape[1]):
        planes[np.arange(len(planes)), places[:, element]] = maxima[:, element]
    result = channels_first(out, data_format)
    result[...] = planes.reshape(result.shape)


def max_unpool2d_grad(
    index: Array, out_grad: Array, x_grad: Array, *, data_format: str, **_: object
) -> None:
    grads, places = _planes(out_grad, data_format), _planes(index, data_format)
    check_ids("max_unpool2d_grad: index", index, grads.shape[1])
    result = channels_first(x_grad, data_format)
    result[...] = np.take_along_axis(grads, places.astype(np.int64), 1).reshape(result.shape)


def _unpool_shape(ctx: InferContext) -> None:
    """The output replaces the spatial axes with output_size."""
    n, channels, *_ = image_dims(ctx)
    ctx.require_shape("index", ctx.input("x").shape)
    size = spatial_attr(ctx, "output_size")
    if prod(size) > _MAX_PLANE:
        ctx.fail(f"output_size must have at most {_MAX_PLANE} elements, got {list(size)}")
    set_images(ctx, "out", n, channels, size)


def _unpool_maker(rank: int) -> OpMaker:
    names = axis_names(rank)
    place = {1: "place", 2: "row * width + column", 3: "(slice * height + row) * width + column"}
    maker = OpMaker(f"max_unpool{rank}d").add_comment(
        f"The inverse of max_pool{rank}d: out[n, c] is x[n, c] at the indices index[n, c], "
        f"{place[rank]} of out, and 0 elsewhere. The last of repeated indices wins; each of them "
        f"receives its gradient, as in PyTorch."
    )
    maker.add_input("x", f"float images, [n, channels, {names}] or per data_format")
    maker.dtypes(*FLOATS)
    count = names.replace(", ", " * ")
    maker.add_input("index", f"shape of x: indices in [0, {count}) of out").dtypes("int32")
    maker.add_output("out", "[n, channels, *output_size] or per data_format, dtype of x")
    maker.same_dtype_as("x")
    joined = axis_names(rank, " and ") if rank < 3 else names
    maker.add_attr("output_size", list[int], f"{joined} of out", rank).required().at_least(1)
    return add_data_format(maker, rank)


def _unpool1d_body(b: BodyContext) -> None:
    """Unpool 1-d inputs as images of height 1; the indices are the same."""
    attrs = {**lift_attrs(b), "output_size": [1, *b.attr("output_size")]}
    set_lines(b, b.emit("max_unpool2d", lift(b, "x", "index"), attrs=attrs))


def _unpool3d_body(b: BodyContext) -> None:
    """Unpool volumes as images of stacked slices; the indices are the same."""
    data_format, (depth, height, width) = b.attr("data_format"), b.attr("output_size")
    is_last = is_channels_last(data_format)
    axis = 1 if is_last else 2
    flat = {"start_axis": axis, "stop_axis": axis + 1}
    inputs = {slot: b.emit("flatten", {"x": b.input(slot)}, attrs=flat) for slot in ("x", "index")}
    attrs = {"output_size": [depth * height, width], "data_format": "NHWC" if is_last else "NCHW"}
    out = b.emit("max_unpool2d", inputs, attrs=attrs)
    n, channels, *_ = channels_first_shape(b)
    pixels = (depth * height, width)
    shape = (n, *pixels, channels) if is_last else (n, channels, *pixels)
    b.set_output("out", split_axis(b, out, shape, axis, [depth, height]))


MAX_UNPOOL1D = _unpool_maker(1).build(infer_shape=_unpool_shape, body=_unpool1d_body)

MAX_UNPOOL2D = _unpool_maker(2).build(
    infer_shape=_unpool_shape,
    gradient=grad_op("max_unpool2d_grad", needs=["index"], gradient=linear_in("x")),
)

MAX_UNPOOL3D = _unpool_maker(3).build(infer_shape=_unpool_shape, body=_unpool3d_body)
