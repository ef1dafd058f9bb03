"""Maxima of the bins of boxes, at whole pixels (RoIPool of Fast R-CNN)."""

from __future__ import annotations

from math import prod

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op
from opwright_std.compositions.selections import pick_in_boxes
from opwright_std.numerics.boxes import add_roi_slots, check_images, infer_roi, scale_rois
from opwright_std.numerics.dtypes import Array
from opwright_std.numerics.windows import Ints

_MAX_PLANE = 2**31 - 1


def _round(number: float) -> int:
    """Return the nearest integer, with ties rounded away from 0."""
    return int(np.copysign(np.floor(abs(number) + 0.5), number))


def _bins(first: float, last: float, size: int, count: int) -> list[slice]:
    """Return the pixels of each bin; a box includes both ends, and at least one pixel."""
    begin = _round(first)
    extent = max(_round(last) - begin + 1, 1)
    edges = ((i * extent // count, -(-(i + 1) * extent // count)) for i in range(count))
    return [
        slice(*(min(max(begin + edge, 0), size) for edge in (low, high))) for low, high in edges
    ]


def roi_pool(
    x: Array,
    rois: Array,
    batch_index: Array,
    out: Array,
    index: Array,
    *,
    output_size: Ints,
    spatial_scale: float,
) -> None:
    check_images("roi_pool", batch_index, len(x))
    height, width = x.shape[2:]
    for box, (left, top, right, bottom) in enumerate(scale_rois("roi_pool", rois, spatial_scale)):
        image = x[batch_index[box]]
        rows = _bins(top, bottom, height, output_size[0])
        columns = _bins(left, right, width, output_size[1])
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                window = image[:, row, column]
                if window[0:1].size == 0:
                    out[box, :, i, j], index[box, :, i, j] = 0, -1
                    continue
                flat = window.reshape(len(window), -1)
                at = np.argmax(flat, axis=1)
                out[box, :, i, j] = flat[np.arange(len(flat)), at]
                down, right_by = np.divmod(at, window.shape[2])
                index[box, :, i, j] = (row.start + down) * width + column.start + right_by


def roi_pool_grad(
    batch_index: Array, index: Array, out_grad: Array, x_grad: Array, **_: object
) -> None:
    check_images("roi_pool_grad", batch_index, len(x_grad))
    n, channels, height, width = x_grad.shape
    pixels = height * width
    places = index.reshape(len(index), channels, prod(index.shape[2:])).astype(np.int64)
    if places.size and not (places.min() >= -1 and places.max() < pixels):
        wrong = places[(places < -1) | (places >= pixels)][0]
        raise ValueError(f"roi_pool_grad: index must be in [-1, {pixels}), got {wrong}")
    planes = batch_index.astype(np.int64)[:, None] * channels + np.arange(channels)
    flat = planes[:, :, None] * pixels + places
    taken = places >= 0
    sums = np.zeros(n * channels * pixels)
    np.add.at(sums, flat[taken], out_grad.reshape(places.shape)[taken])
    x_grad[...] = sums.reshape(x_grad.shape)


def _pool_shape(ctx: InferContext) -> None:
    """The outputs have output_size bins per box and channel."""
    shape, (height, width) = infer_roi(ctx), ctx.input("x").shape[2:]
    if min(height, width) > 0 and height * width > _MAX_PLANE:
        ctx.fail(f"x must have at most {_MAX_PLANE} pixels, got {height} x {width}")
    ctx.set_output("out", shape)
    ctx.set_output("index", shape, "int32")


def _pool_maker() -> OpMaker:
    maker = OpMaker("roi_pool").add_comment(
        "Maximum pooling of boxes, as torchvision's roi_pool: the corners of a box are rounded to "
        "whole pixels, both included, the box is divided into output_size bins, which overlap if "
        "they do not divide it evenly, and out[box, c, i, j] is the greatest element of a bin, 0 "
        "if it is outside of the image. The first of equal elements receives the gradient; boxes "
        "have no gradient."
    )
    add_roi_slots(maker)
    maker.add_output("out", "[boxes, channels, *output_size], dtype of x").same_dtype_as("x")
    maker.add_output("index", "int32, shape of out: row * width + column of the maximum, -1: none")
    return maker.dtypes("int32").as_intermediate()


ROI_POOL = _pool_maker().build(
    infer_shape=_pool_shape,
    gradient=grad_op(
        "roi_pool_grad",
        needs=["batch_index", "index"],
        no_grad=["rois"],
        gradient=pick_in_boxes,
    ),
)
