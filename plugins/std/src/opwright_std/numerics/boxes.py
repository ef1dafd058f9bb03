"""Regions of interest: boxes in images, each with an image index."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, dims_match, format_shape, merge_dims
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array

MAX_COORDINATE = 2**20


def scale_rois(who: str, rois: Array, spatial_scale: float) -> Array:
    """Return the boxes in pixels, float64 [n, 4].

    Raises
    ------
    ValueError
        If a coordinate is not finite or far outside of any image; begins with `who`.
    """
    scaled = np.asarray(rois.astype(np.float64) * spatial_scale)
    wrong = ~(np.abs(scaled) <= MAX_COORDINATE)
    if wrong.any():
        raise ValueError(
            f"{who}: rois times spatial_scale must be in [-{MAX_COORDINATE}, {MAX_COORDINATE}], "
            f"got {scaled[wrong][0]}; clip boxes to their images"
        )
    return scaled


def check_images(who: str, batch_index: Array, count: int) -> None:
    """Raise ValueError unless every image index is below `count`."""
    check_ids(f"{who}: batch_index", batch_index, count)


def add_roi_slots(maker: OpMaker) -> OpMaker:
    """Add images, boxes, image indices and the attributes common to pooling."""
    maker.add_input("x", "float images, [n, channels, height, width]").dtypes(*FLOATS)
    maker.add_input("rois", "boxes [boxes, 4]: left, top, right, bottom; dtype of x")
    maker.same_dtype_as("x")
    maker.add_input("batch_index", "[boxes]: the image of each box, in [0, n)").dtypes(*INDICES)
    maker.add_attr(
        "output_size", list[int], "bins: height and width of out", 2
    ).required().at_least(1)
    maker.add_attr("spatial_scale", float, "pixels of x per unit of rois")
    return maker.default(1.0).greater_than(0.0)


def infer_roi(ctx: InferContext) -> tuple[int, int, int, int]:
    """Return the shape of the output: boxes, channels, and the bins of each box."""
    x, rois, size = ctx.input("x").shape, ctx.input("rois").shape, ctx.attr("output_size")
    if len(x) != 4 or 0 in x[2:]:
        ctx.fail(
            f"x must be [n, channels, height, width] with at least one pixel, got {format_shape(x)}"
        )
    if len(rois) != 2 or not dims_match(rois[1], 4):
        ctx.fail(f"rois must be boxes [boxes, 4], got {format_shape(rois)}")
    ctx.require_shape("batch_index", (rois[0],))
    if len(size) != 2:
        ctx.fail(f"output_size must hold a height and a width, got {list(size)}")
    boxes = merge_dims(rois[0], ctx.input("batch_index").shape[0])
    return boxes, x[1], size[0], size[1]
