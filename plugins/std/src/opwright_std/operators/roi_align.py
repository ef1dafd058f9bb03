"""Means of bilinear samples in the bins of boxes (RoIAlign of Mask R-CNN)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opwright.op import GradientContext, GradOp, InferContext, OpMaker, linear_in, no_gradient
from opwright_std.compositions.expression import Expression
from opwright_std.numerics.boxes import add_roi_slots, check_images, infer_roi, scale_rois
from opwright_std.numerics.dtypes import Array
from opwright_std.numerics.windows import Ints


def _shares(begin: float, extent: float, size: int, bins: int, ratio: int) -> Array:
    """Return the weight of each pixel along an axis in each bin, [bins, size].

    Samples form a grid, so the weight of a pixel is the product of its row and column weights.
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
    """Return for each bin of an axis the pixels around its samples, and their weights."""
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


def _products(image: Array, rows: list[Any], columns: list[Any]) -> tuple[Array, Array, Array]:
    """Return weighted pixels around samples, [channels, n], their indices and weights.

    If there are no samples, a single pixel of weight 0 is returned.
    """
    shares = np.array([row * column for _, row in rows for _, column in columns] or [0.0])
    width = image.shape[2]
    places = np.array([row * width + column for row, _ in rows for column, _ in columns] or [0])
    pixels = image.reshape(len(image), -1)[:, places]
    # Pixels of weight 0 are not read and count as 0.
    return np.where(shares == 0, 0, pixels * shares.astype(image.dtype)), places, shares


def _boxes(
    rois: Array,
    x_shape: Ints,
    bins: Ints,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    shares: Callable[..., Any] = _shares,
) -> Iterator[tuple[Any, Any]]:
    """Yield the row and column weights of each box."""
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
                out[box, :, i, j] = _products(x[batch_index[box]], rows[i], columns[j])[0].max(1)
        return
    boxes = _boxes(rois, x.shape, output_size, spatial_scale, sampling_ratio, aligned)
    for box, (rows, columns) in enumerate(boxes):
        image = x[batch_index[box]]
        # Only pixels of nonzero weight are read, since 0 * NaN is NaN.
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
        # Pixels of weight 0 are not read, so they have no gradient.
        for i, row in enumerate(rows):
            at = np.flatnonzero(row)
            for j, column in enumerate(columns):
                to = np.flatnonzero(column)
                share = np.outer(row[at], column[to])
                gradients = out_grad[box, :, i, j].astype(np.float64)
                sums[batch_index[box]][:, at[:, None], to] += gradients[:, None, None] * share
    x_grad[...] = sums


def roi_align_places(
    x: Array,
    rois: Array,
    batch_index: Array,
    index: Array,
    share: Array,
    *,
    output_size: Ints,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> None:
    check_images("roi_align_grad", batch_index, len(x))
    boxes = _boxes(rois, x.shape, output_size, spatial_scale, sampling_ratio, aligned, _corners)
    channels, size = np.arange(x.shape[1]), x.shape[2] * x.shape[3]
    for box, (rows, columns) in enumerate(boxes):
        image = batch_index[box]
        for i, j in np.ndindex(*output_size):
            products, places, shares = _products(x[image], rows[i], columns[j])
            best = products.argmax(axis=1)
            index[box, :, i, j] = (image * len(channels) + channels) * size + places[best]
            share[box, :, i, j] = shares[best]


def _align_shape(ctx: InferContext) -> None:
    """The output has output_size bins per box and channel."""
    ctx.set_output("out", infer_roi(ctx))


def _add_grid(maker: OpMaker) -> OpMaker:
    """Add images, boxes and the sampling attributes."""
    add_roi_slots(maker)
    maker.add_attr(
        "sampling_ratio", int, "samples along each axis of a bin; 0 or -1: one per pixel"
    )
    maker.default(-1).between(-1, 1024)
    maker.add_attr(
        "aligned", bool, "whether pixel centers are at 0.5; otherwise boxes are at least 1 wide"
    )
    return maker.default(False)


def _align_maker() -> OpMaker:
    maker = OpMaker("roi_align").add_comment(
        "Bilinear pooling of boxes, as torchvision's roi_align: each box is divided into "
        "output_size bins, and out[box, c, i, j] is the mean of the bilinear samples of a bin, on "
        "a regular grid in the image batch_index[box]. Samples more than 1 pixel outside count as "
        "0. With mode max it is the greatest weighted pixel around a sample, as ONNX's RoiAlign; "
        "the first of equal ones receives the gradient. Boxes have no gradient."
    )
    _add_grid(maker)
    maker.add_attr("mode", str, "reduction of the samples of a bin").default("avg").one_of(
        "avg", "max"
    )
    maker.as_added()
    return maker.add_output("out", "[boxes, channels, *output_size], dtype of x").same_dtype_as("x")


class _AlignGradient(GradOp):
    """Means have a gradient operator; gradients of maxima are scattered to the selected pixels."""

    def __call__(self, g: GradientContext) -> None:
        if g.attr("mode") == "avg":
            super().__call__(g)
            return
        x = Expression(g, g.input("x"))
        inputs = {"x": x.name, "rois": g.input("rois"), "batch_index": g.input("batch_index")}
        attrs = {name: value for name, value in g.attrs.items() if name != "mode"}
        taken = g.emit_multi("roi_align_places", inputs, {"index": 1, "share": 1}, attrs)
        parts = Expression(g, g.output_grad("out")) * Expression(g, taken["share"][0])
        flat = {"start_axis": 0, "stop_axis": -1}
        scattered = {
            "x": x.filled(0.0).then("flatten", **flat).name,
            "index": Expression(g, taken["index"][0]).then("flatten", **flat).name,
            "updates": parts.then("flatten", **flat).name,
        }
        sums = Expression(g, g.emit("scatter", scattered, attrs={"reduction": "add"}))
        g.set_input_grad("x", sums.like(x).name)


ROI_ALIGN = _align_maker().build(
    infer_shape=_align_shape,
    gradient=_AlignGradient(
        "roi_align_grad",
        needs=["rois", "batch_index"],
        no_grad=["rois"],
        gradient=linear_in("x"),
    ),
)


def _places_shape(ctx: InferContext) -> None:
    """Both outputs have output_size bins per box and channel."""
    shape = infer_roi(ctx)
    ctx.set_output("index", shape)
    ctx.set_output("share", shape)


ROI_ALIGN_PLACES = (
    _add_grid(
        OpMaker("roi_align_places").add_comment(
            "The pixel that roi_align selects with mode max, as a flat index into x, and its "
            "weight."
        )
    )
    .add_output("index", "int64 [boxes, channels, *output_size]")
    .dtypes("int64")
    .add_output("share", "shape of index, dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_places_shape, gradient=no_gradient("it is not continuous"))
)
