"""Non-maximum suppression: keeps the best of boxes that overlap strongly."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import InferContext, OpMaker, dims_match, format_shape, no_gradient
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array
from opwright_std.operators.nonzero import Resizable


def _areas(boxes: Array, border: float) -> Array:
    extents = boxes[:, 2:] - boxes[:, :2]
    extents = np.where(extents < 0, 0, extents + border)
    return np.asarray(extents[:, 0] * extents[:, 1])


def suppress(boxes: Array, threshold: float, eta: float = 1.0, border: float = 0.0) -> Array:
    """Return the indices of kept boxes, the best box first.

    Areas and overlaps are computed in float64, so the dtype does not affect the result.

    Parameters
    ----------
    boxes : ndarray
        [n, 4]
    threshold : float
        Boxes that overlap a kept box more than this are dropped.
    eta : float
        Factor of the threshold after each kept box, while it is above 0.5.
    border : float
        Added to widths and heights: 1 if right and bottom are pixels of the box.
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
        # Boxes of area 0 do not overlap, since 0 / 0 is not above any threshold.
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
    order = _by_score(scores, score_threshold)
    _write(out, order[suppress(boxes[order], iou_threshold)], limit)


def batched_nms(
    boxes: Array,
    scores: Array,
    classes: Array,
    out: Resizable,
    *,
    iou_threshold: float,
    score_threshold: float,
    limit: int,
    class_limit: int,
) -> None:
    order = _by_score(scores, score_threshold)
    kept = np.zeros(len(order), bool)
    for own in np.unique(classes):
        ranks = np.flatnonzero(classes[order] == own)
        best = ranks[suppress(boxes[order[ranks]], iou_threshold)]
        kept[_first(best, class_limit)] = True
    _write(out, order[kept], limit)


def _by_score(scores: Array, threshold: float) -> Array:
    """Return box indices by descending score, NaN first; the sort is stable."""
    order = np.lexsort((-scores, ~np.isnan(scores)))
    if threshold > -math.inf:
        order = order[~(scores[order].astype(np.float64) <= threshold)]
    return order


def _first(numbers: Array, limit: int) -> Array:
    return numbers[: limit if limit >= 0 else None]


def _write(out: Resizable, kept: Array, limit: int) -> None:
    kept = _first(kept, limit)
    out.resize((len(kept),))[...] = kept


def _nms_shape(ctx: InferContext) -> None:
    """The output has one element per kept box."""
    boxes = ctx.input("boxes").shape
    if len(boxes) != 2 or not dims_match(boxes[1], 4):
        ctx.fail(f"boxes must be [n, 4], got {format_shape(boxes)}")
    ctx.require_shape("scores", (boxes[0],))
    ctx.set_output("out", (-1,))


def _batched_shape(ctx: InferContext) -> None:
    """The output has one element per kept box."""
    _nms_shape(ctx)
    ctx.require_shape("classes", (ctx.input("boxes").shape[0],))


def _nms_maker(op_type: str, which: str, of_class: str = "") -> OpMaker:
    maker = OpMaker(op_type).add_comment(
        f"Non-maximum suppression{which}: visits the boxes by descending score, and keeps each "
        f"box whose intersection over union with every kept box{of_class} is at most "
        f"iou_threshold. Ties keep the order of the boxes, and NaN is the best score. "
        "Overlaps are computed in float64."
    )
    maker.add_input("boxes", "float [n, 4]: left, top, right, bottom").dtypes(*FLOATS)
    maker.add_input("scores", "[n], dtype of boxes").same_dtype_as("boxes")
    if of_class:
        maker.add_input("classes", "int32 or int64 [n], any numbers").dtypes(*INDICES)
    maker.add_output(
        "out", "int64 [kept]: indices of boxes, by descending score; shape known after the run"
    )
    maker.dtypes("int64")
    maker.add_attr("iou_threshold", float, "overlap above which a box is dropped").required()
    maker.between(0.0, 1.0)
    maker.add_attr("score_threshold", float, "boxes with at most this score are dropped")
    maker.default(-math.inf).as_added()
    maker.add_attr("limit", int, "maximum number of kept boxes; -1: all").default(-1).at_least(-1)
    return maker.as_added().dynamic_output()


_NO_GRADIENT = no_gradient("indices of boxes are not continuous")

NMS = _nms_maker("nms", "").build(infer_shape=_nms_shape, gradient=_NO_GRADIENT)

BATCHED_NMS = (
    _nms_maker("batched_nms", " of boxes of several classes or images in one call", " of its class")
    .add_attr("class_limit", int, "maximum number of kept boxes per class; -1: all")
    .default(-1)
    .at_least(-1)
    .build(infer_shape=_batched_shape, gradient=_NO_GRADIENT)
)
