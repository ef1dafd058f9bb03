"""Means of samples in the bins of boxes, between pixels (RoIAlign of Mask R-CNN)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opwright.errors import GradientError
from opwright.op import BodyContext, InferContext, OpMaker, grad_op, linear_in
from opwright_std.numerics.boxes import add_roi_slots, check_images, infer_roi, scale_rois
from opwright_std.numerics.dtypes import Array
from opwright_std.numerics.windows import Ints


def _shares(begin: float, extent: float, size: int, bins: int, ratio: int) -> Array:
    """Return the share that each pixel of an axis has of each bin, [bins, size].

    Samples lie on a grid in both axes, so the share of a pixel is the product of those of its row
    and of its column.
    """
    samples = ratio if ratio > 0 else max(int(np.ceil(extent / bins)), 0)
    shares = np.zeros((bins, size))
    if samples == 0:
        return shares
    grid = np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / samples
    places = begin + grid * (extent / bins)
    inside = (places >= -1) & (places <= size)
    held = np.clip(places, 0, size - 1)
    first = held.astype(np.int64)
    second = np.minimum(first + 1, size - 1)
    row = np.broadcast_to(np.arange(bins)[:, None], places.shape)
    np.add.at(shares, (row, first), inside * (1 - (held - first)) / samples)
    np.add.at(shares, (row, second), inside * (held - first) / samples)
    return shares


def _corners(
    begin: float, extent: float, size: int, bins: int, ratio: int
) -> list[list[tuple[int, float]]]:
    """Return for each bin of an axis the pixels around its samples, and their shares."""
    samples = ratio if ratio > 0 else max(int(np.ceil(extent / bins)), 0)
    found: list[list[tuple[int, float]]] = []
    for bin in range(bins):
        found.append([])
        for k in range(samples):
            place = begin + (bin + (k + 0.5) / samples) * (extent / bins)
            held = min(max(place, 0), size - 1)
            share = held - int(held) if -1 <= place <= size else 0.0
            found[-1].append((int(held), 1 - share if -1 <= place <= size else 0.0))
            found[-1].append((min(int(held) + 1, size - 1), share))
    return found


def _greatest(image: Array, rows: list[Any], columns: list[Any]) -> Array | float:
    """Return the greatest share of a pixel around a sample, of each channel; 0 without one."""
    shares = np.array([[row * column for _, column in columns] for _, row in rows])
    if shares.size == 0:
        return 0.0
    places = np.ix_([place for place, _ in rows], [place for place, _ in columns])
    pixels = image[:, places[0], places[1]]
    # What has no share is not read, as above, and counts as 0.
    products = np.where(shares == 0, 0, pixels * shares.astype(image.dtype))
    return np.asarray(products.max(axis=(1, 2)))


def _boxes(
    rois: Array,
    x_shape: Ints,
    bins: Ints,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    shares: Callable[..., Any] = _shares,
) -> Iterator[tuple[Any, Any]]:
    """Give for each box the shares of rows and those of columns."""
    shift = 0.5 if aligned else 0.0
    for left, top, right, bottom in scale_rois("roi_align", rois, spatial_scale):
        extents = [bottom - top, right - left]
        if not aligned:
            extents = [max(extent, 1.0) for extent in extents]
        rows, columns = (
            shares(begin - shift, extent, size, count, sampling_ratio)
            for begin, extent, size, count in zip(
                (top, left), extents, x_shape[2:], bins, strict=True
            )
        )
        yield rows, columns


def roi_align(
    x: Array,
    rois: Array,
    batch_index: Array,
    out: Array,
    *,
    output_size: Ints,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    mode: str,
) -> None:
    check_images("roi_align", batch_index, len(x))
    if mode == "max":
        boxes = _boxes(rois, x.shape, output_size, spatial_scale, sampling_ratio, aligned, _corners)
        for box, (rows, columns) in enumerate(boxes):
            for i, j in np.ndindex(*output_size):
                out[box, :, i, j] = _greatest(x[batch_index[box]], rows[i], columns[j])
        return
    boxes = _boxes(rois, x.shape, output_size, spatial_scale, sampling_ratio, aligned)
    for box, (rows, columns) in enumerate(boxes):
        image = x[batch_index[box]]
        # Only what has a share is read: 0 * NaN is NaN.
        for i, row in enumerate(rows):
            at = np.flatnonzero(row)
            mixed = np.tensordot(row[at], image[:, at], ([0], [1]))
            for j, column in enumerate(columns):
                to = np.flatnonzero(column)
                out[box, :, i, j] = mixed[:, to] @ column[to]


def roi_align_grad(
    rois: Array,
    batch_index: Array,
    out_grad: Array,
    x_grad: Array,
    *,
    output_size: Ints,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> None:
    check_images("roi_align_grad", batch_index, len(x_grad))
    sums = np.zeros(x_grad.shape)
    boxes = _boxes(rois, x_grad.shape, output_size, spatial_scale, sampling_ratio, aligned)
    for box, (rows, columns) in enumerate(boxes):
        # As above: nothing is added to what has no share.
        for i, row in enumerate(rows):
            at = np.flatnonzero(row)
            for j, column in enumerate(columns):
                to = np.flatnonzero(column)
                share = np.outer(row[at], column[to])
                slopes = out_grad[box, :, i, j].astype(np.float64)
                sums[batch_index[box]][:, at[:, None], to] += slopes[:, None, None] * share
    x_grad[...] = sums


def _align_shape(ctx: InferContext) -> None:
    """The output has output_size for each box and channel."""
    ctx.set_output("out", infer_roi(ctx))


def _align_maker() -> OpMaker:
    maker = OpMaker("roi_align").add_comment(
        "Bilinear pooling of boxes, as torchvision's roi_align: each box is cut into output_size "
        "bins, and out[box, c, i, j] is the mean over the samples of a bin, which lie on a regular "
        "grid between the pixels of the image batch_index[box]. Samples more than 1 pixel outside "
        "count as 0. With mode max it is the greatest product of a pixel around a sample and its "
        "share, as ONNX's RoiAlign, without a gradient. Boxes have no gradient."
    )
    add_roi_slots(maker)
    maker.add_attr("sampling_ratio", int, "samples along each axis of a bin; 0 or -1: one a pixel")
    maker.default(-1).between(-1, 1024)
    maker.add_attr(
        "aligned", bool, "pixels have their centres at a half; without it boxes are at least 1 wide"
    ).default(False)
    maker.add_attr("mode", str, "what a bin has of its samples").default("avg").one_of("avg", "max")
    maker.as_added()
    return maker.add_output("out", "[boxes, channels, *output_size], dtype of x").same_dtype_as("x")


def _grad_body(b: BodyContext) -> bool:
    if b.attr("mode") == "max":
        raise GradientError("roi_align: mode must be 'avg' for a gradient, got 'max'; take 'avg'")
    return False


ROI_ALIGN = _align_maker().build(
    infer_shape=_align_shape,
    gradient=grad_op(
        "roi_align_grad",
        needs=["rois", "batch_index"],
        no_grad=["rois"],
        gradient=linear_in("x"),
        body=_grad_body,
    ),
)
