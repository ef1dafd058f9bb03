"""Non-maximum suppression: of boxes that overlap much, the one with the best score."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from opwright.op import InferContext, OpMaker, dims_match, format_shape, no_gradient
from opwright_std.numerics.dtypes import FLOATS, Array


class Resizable(Protocol):
    """An output whose shape the kernel finds out."""

    def resize(self, shape: tuple[int, ...]) -> Array:
        """Give it its shape and return the array to write."""


def _areas(boxes: Array, border: float) -> Array:
    extents = boxes[:, 2:] - boxes[:, :2]
    extents = np.where(extents < 0, 0, extents + border)
    return np.asarray(extents[:, 0] * extents[:, 1])


def suppress(boxes: Array, threshold: float, eta: float = 1.0, border: float = 0.0) -> Array:
    """Return which boxes are kept; the best one comes first.

    Areas and overlaps are computed in float64, so that boxes are kept alike in every dtype.

    Parameters
    ----------
    boxes : ndarray
        [n, 4]
    threshold : float
        A box whose overlap with one kept before is above it is dropped.
    eta : float
        Factor of the threshold behind each box that is kept, while it is above 0.5.
    border : float
        Added to widths and heights: 1 where right and bottom are pixels of the box.
    """
    boxes = boxes.astype(np.float64)
    areas = _areas(boxes, border)
    worst = np.zeros(len(boxes))
    kept = np.zeros(len(boxes), bool)
    for i in range(len(boxes)):
        if worst[i] > threshold:
            continue
        kept[i] = True
        rest = boxes[i + 1 :]
        begins = np.maximum(boxes[i, :2], rest[:, :2])
        both = _areas(np.concatenate([begins, np.minimum(boxes[i, 2:], rest[:, 2:])], 1), border)
        # Boxes without an area overlap nothing: 0 / 0 is greater than no threshold.
        with np.errstate(invalid="ignore"):
            overlaps = both / (areas[i] + areas[i + 1 :] - both)
        np.fmax(worst[i + 1 :], overlaps, out=worst[i + 1 :])
        if threshold > 0.5:
            threshold *= eta
    return kept


def nms(
    boxes: Array,
    scores: Array,
    out: Resizable,
    *,
    iou_threshold: float,
    score_threshold: float,
    limit: int,
) -> None:
    # Best scores first, NaN before all; of equal ones the first box.
    order = np.lexsort((-scores, ~np.isnan(scores)))
    if score_threshold > -math.inf:
        order = order[~(scores[order].astype(np.float64) <= score_threshold)]
    kept = order[suppress(boxes[order], iou_threshold)][: limit if limit >= 0 else None]
    out.resize((len(kept),))[...] = kept


def _nms_shape(ctx: InferContext) -> None:
    """The output has an element for each box that is kept."""
    boxes = ctx.input("boxes").shape
    if len(boxes) != 2 or not dims_match(boxes[1], 4):
        ctx.fail(f"boxes must be [n, 4], got {format_shape(boxes)}")
    ctx.require_shape("scores", (boxes[0],))
    ctx.set_output("out", (-1,))


def _nms_maker() -> OpMaker:
    maker = OpMaker("nms").add_comment(
        "Non-maximum suppression: goes through the boxes by falling score, and keeps each one "
        "whose intersection over union with every box kept before is at most iou_threshold. Of "
        "equal scores the first box goes first, and NaN is the best score. Overlaps are computed "
        "in float64."
    )
    maker.add_input("boxes", "float [n, 4]: left, top, right, bottom").dtypes(*FLOATS)
    maker.add_input("scores", "[n], dtype of boxes").same_dtype_as("boxes")
    maker.add_output("out", "int64 [kept]: numbers of boxes, by falling score; known after the run")
    maker.dtypes("int64")
    maker.add_attr("iou_threshold", float, "overlap above which a box is dropped").required()
    maker.between(0.0, 1.0)
    maker.add_attr("score_threshold", float, "a box whose score is up to it is dropped")
    maker.default(-math.inf).as_added()
    maker.add_attr("limit", int, "the most boxes that are kept; -1: all").default(-1).at_least(-1)
    return maker.as_added().dynamic_output()


NMS = _nms_maker().build(
    infer_shape=_nms_shape, gradient=no_gradient("numbers of boxes are no continuous values")
)
