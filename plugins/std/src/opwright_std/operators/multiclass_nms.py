"""Non-maximum suppression per class and image, then the best detections of all classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, no_gradient
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.nms import suppress
from opwright_std.operators.nonzero import Resizable


class _Rule(NamedTuple):
    score_threshold: float
    iou_threshold: float
    nms_top_k: int
    keep_top_k: int
    nms_eta: float
    background_label: int
    normalized: bool
    class_top_k: int


def _best(scores: Array, count: int) -> Array:
    """Return the indices of the `count` best scores, with ties in order; -1 selects all."""
    order = np.argsort(-scores, kind="stable")
    return order[:count] if count >= 0 else order


def _detect(boxes: Array, scores: Array, rule: _Rule) -> tuple[Array, Array]:
    """Return class and box of each detection in one image, by class and descending score."""
    classes, kept = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    border = 0.0 if rule.normalized else 1.0
    scores = scores.astype(np.float64)
    for label, row in enumerate(scores):
        if label == rule.background_label:
            continue
        found = np.flatnonzero(row > rule.score_threshold)
        found = found[_best(row[found], rule.nms_top_k)]
        left = suppress(boxes[found], rule.iou_threshold, rule.nms_eta, border)
        kept.append(found[left][: rule.class_top_k if rule.class_top_k >= 0 else None])
        classes.append(np.full(len(kept[-1]), label))
    labels, index = np.concatenate(classes), np.concatenate(kept)
    best = np.sort(_best(scores[labels, index], rule.keep_top_k))
    return labels[best], index[best]


def multiclass_nms(
    boxes: Array,
    scores: Array,
    out: Resizable,
    index: Resizable,
    batch_index: Resizable,
    *,
    class_top_k: int = -1,
    **attrs: float,
) -> None:
    rule = _Rule(**attrs, class_top_k=class_top_k)  # type: ignore[arg-type]
    found = [_detect(boxes[i], scores[i], rule) for i in range(len(boxes))]
    images = np.repeat(np.arange(len(found)), [len(kept) for _, kept in found])
    labels, kept = (
        np.concatenate([np.zeros(0, np.int64), *(pair[i] for pair in found)]) for i in range(2)
    )
    rows = out.resize((len(kept), 6))
    rows[:, 0] = labels
    rows[:, 1] = scores[images, labels, kept]
    rows[:, 2:] = boxes[images, kept]
    for slot, values in ((index, kept), (batch_index, images)):
        slot.resize((len(kept),))[...] = values


def _multiclass_nms_shape(ctx: InferContext) -> None:
    """The outputs have one row per detection."""
    boxes, scores = ctx.input("boxes").shape, ctx.input("scores").shape
    if len(boxes) != 3 or boxes[2] not in (4, -1):
        ctx.fail(f"boxes must be [n, m, 4], got {format_shape(boxes)}")
    if len(scores) != 3:
        ctx.fail(f"scores must be [n, classes, m], got {format_shape(scores)}")
    ctx.require_shape("scores", (boxes[0], scores[1], boxes[1]))
    ctx.set_output("out", (-1, 6))
    ctx.set_output("index", (-1,))
    ctx.set_output("batch_index", (-1,))


def _multiclass_nms_maker() -> OpMaker:
    maker = OpMaker("multiclass_nms").add_comment(
        "Non-maximum suppression per class and image, as Paddle's multiclass_nms: nms filters the "
        "nms_top_k best boxes with a score above score_threshold, and the keep_top_k best of all "
        "classes are the detections of the image. They are ordered by image, class and descending "
        "score; ties keep the order of the boxes."
    )
    maker.add_input("boxes", "float [n, m, 4]: left, top, right, bottom").dtypes(*FLOATS)
    maker.add_input("scores", "[n, classes, m], dtype of boxes").same_dtype_as("boxes")
    maker.add_output("out", "[kept, 6]: class, score and box of each detection, dtype of boxes")
    maker.same_dtype_as("boxes")
    maker.add_output("index", "int64 [kept]: index of the box in its image").dtypes("int64")
    maker.add_output("batch_index", "int64 [kept]: index of the image").dtypes("int64")
    maker.add_attr("score_threshold", float, "detections have a higher score").required()
    maker.add_attr("iou_threshold", float, "overlap above which a box is dropped").default(0.3)
    maker.between(0.0, 1.0)
    maker.add_attr("nms_top_k", int, "candidate boxes per class; -1: all").default(-1)
    maker.at_least(-1)
    maker.add_attr("keep_top_k", int, "detections per image; -1: all").default(-1).at_least(-1)
    maker.add_attr(
        "nms_eta",
        float,
        "factor of iou_threshold after each kept box of a class, while it is above 0.5",
    ).default(1.0).greater_than(0.0).at_most(1.0)
    maker.add_attr("background_label", int, "ignored class; -1: none").default(0)
    maker.at_least(-1)
    maker.add_attr(
        "normalized",
        bool,
        "whether right and bottom are edges; otherwise they are pixels of the box",
    )
    maker.default(True)
    maker.add_attr("class_top_k", int, "kept boxes per class and image; -1: all")
    return maker.default(-1).at_least(-1).as_added().dynamic_output()


MULTICLASS_NMS = _multiclass_nms_maker().build(
    infer_shape=_multiclass_nms_shape,
    gradient=no_gradient("the kept boxes are not continuous in the scores"),
)
