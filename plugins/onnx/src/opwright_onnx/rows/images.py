"""Rows of operators on images: boxes, grids and deformable convolutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value, check_table

ROWS = Rows()


@ROWS.row("GridSample")
def grid_sample(t: Translator, n: Node, x: Value, grid: Value) -> Any:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(n.attr("mode"), n.attr("mode"))
    flags = {"align_corners": bool(n.attr("align_corners"))}
    return t.op("grid_sample", x, grid, mode=mode, padding_mode=n.attr("padding_mode"), **flags)


@ROWS.row("RoiAlign")
def roi_align(t: Translator, n: Node, x: Value, rois: Value, batch_index: Value) -> Any:
    coordinates = n.attr("coordinate_transformation_mode", "output_half_pixel")
    size = [n.attr("output_height"), n.attr("output_width")]
    ratio = n.attr("sampling_ratio")
    return t.op(
        "roi_align",
        x,
        rois,
        batch_index,
        output_size=size,
        spatial_scale=n.attr("spatial_scale"),
        sampling_ratio=ratio or -1,
        aligned=coordinates == "half_pixel",
        mode=n.attr("mode"),
    )


@ROWS.row("NonMaxSuppression")
def non_max_suppression(
    t: Translator,
    n: Node,
    boxes: Value,
    scores: Value,
    limit: Value = None,
    iou: Value = None,
    threshold: Value = None,
) -> Any:
    batch, classes = (t.known_dim(scores, axis, "scores") for axis in range(2))
    most = 0 if limit is None else int(t.number(limit, "max_output_boxes_per_class"))
    if most <= 0:
        return np.zeros((0, 3), np.int64)
    overlap = 0.0 if iou is None else float(t.number(iou, "iou_threshold"))
    bounds: dict[str, Any] = {"iou_threshold": overlap, "limit": most}
    if threshold is not None:
        bounds["score_threshold"] = float(t.number(threshold, "score_threshold"))
    corners = _corners(t, n, boxes)
    rows = []
    for image in range(batch):
        own = t.reshape(t.slice(corners, [0], [image], [image + 1]), [-1, 4])
        for label in range(classes):
            row = t.slice(scores, [0, 1], [image, label], [image + 1, label + 1])
            index = t.op("nms", own, t.reshape(row, [-1]), **bounds)
            rows.append(_kept(t, index, (image, label)))
    return t.op("concat", rows, axis=0) if len(rows) > 1 else rows[0]


def _kept(t: Translator, index: Value, place: tuple[int, int]) -> Value:
    """Return [kept, 3]: image, class and box index of each box kept for one image and class."""
    column = t.op("unsqueeze", index, axis=[1])
    fixed = [t.op("fill_like", column, value=float(number)) for number in place]
    return t.op("concat", [*fixed, column], axis=1)


def _corners(t: Translator, n: Node, boxes: Value) -> Value:
    """Convert boxes to left, top, right, bottom."""
    parts = [t.slice(boxes, [2], [i], [i + 1]) for i in range(4)]
    if n.attr("center_point_box"):
        x, y, width, height = parts
        half = [t.op("multiply", size, 0.5) for size in (width, height)]
        low = [t.op("subtract", c, h) for c, h in zip((x, y), half)]
        high = [t.op("add", c, h) for c, h in zip((x, y), half)]
    else:
        y1, x1, y2, x2 = parts
        low = [t.op("minimum", a, b) for a, b in ((x1, x2), (y1, y2))]
        high = [t.op("maximum", a, b) for a, b in ((x1, x2), (y1, y2))]
    return t.op("concat", [*low, *high], axis=2)


@ROWS.row("Col2Im")
def col2im(t: Translator, n: Node, x: Value, image: Value, block: Value) -> Any:
    sizes, kernel = t.ints(image, "image_shape"), t.ints(block, "block_shape")
    count = len(sizes)
    strides, dilations = (n.attr(name) or [1] * count for name in ("strides", "dilations"))
    pads = n.attr("pads") or [0] * 2 * count
    batch, channels = t.dim(x, 0), t.known_dim(x, 1, "input") // math.prod(kernel)
    padded = [size + pads[i] + pads[i + count] for i, size in enumerate(sizes)]
    index = _window_index(kernel, strides, dilations, padded)
    flat = t.reshape(x, [-1, index.size])
    total = math.prod(padded)
    empty = t.full(0, [total, t.times(batch, channels)], t.dtype(x))
    places = index.reshape(-1, 1)
    summed = t.op("scatter_nd", empty, places, t.transpose(flat, [1, 0]), reduction="add")
    whole = t.reshape(t.transpose(summed, [1, 0]), [batch, channels, *padded])
    ends = [pads[i] + size for i, size in enumerate(sizes)]
    return t.slice(whole, list(range(2, count + 2)), pads[:count], ends)


def _window_index(
    kernel: list[int], strides: list[int], dilations: list[int], padded: list[int]
) -> Any:
    """Return the flat position of each window element in the padded image."""
    check_table(*kernel, *padded)
    places = []
    for size, stride, dilation, length in zip(kernel, strides, dilations, padded):
        n_windows = (length - (size - 1) * dilation - 1) // stride + 1
        places.append(np.arange(size)[:, None] * dilation + np.arange(n_windows) * stride)
    index = np.zeros((1, 1), np.int64)
    for place, length in zip(places, padded):
        grid = index[:, None, :, None] * length + place[None, :, None, :]
        index = grid.reshape(index.shape[0] * place.shape[0], -1)
    return index


@ROWS.row("DeformConv")
def deform_conv(
    t: Translator,
    n: Node,
    x: Value,
    weight: Value,
    offset: Value,
    bias: Value = None,
    mask: Value = None,
) -> Any:
    count = len(t.shape(weight)) - 2
    pads = n.attr("pads") or [0] * 2 * count
    pairs = [pads[i + half] for i in range(count) for half in (0, count)]
    return t.op(
        "deform_conv2d",
        x,
        weight,
        offset=offset,
        bias=bias,
        mask=mask,
        strides=n.attr("strides") or [1] * count,
        paddings=pairs,
        dilations=n.attr("dilations") or [1] * count,
        groups=n.attr("group"),
        offset_groups=n.attr("offset_group"),
    )
