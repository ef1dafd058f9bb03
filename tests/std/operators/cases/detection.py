"""Test cases of box_coder, prior_box and multiclass_nms; the references compute box by box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def box_coder(
    x: Array,
    prior: Array,
    variance: Array | None = None,
    code_type: str = "encode",
    normalized: bool = True,
    axis: int = 0,
) -> Array:
    border = 0.0 if normalized else 1.0
    encodes = code_type == "encode"
    out = np.zeros((len(x), len(prior), 4) if encodes else x.shape)
    for i, j in np.ndindex(*out.shape[:2]):
        k = i if axis == 1 else j
        scale = np.ones(4) if variance is None else variance
        scale = scale[k] if scale.ndim == 2 else scale
        for a in range(2):
            begin, end = prior[k, a], prior[k, a + 2]
            size = end - begin + border
            middle = begin + size / 2
            if encodes:
                out[i, j, a] = ((x[i, a] + x[i, a + 2]) / 2 - middle) / size / scale[a]
                grown = abs((x[i, a + 2] - x[i, a] + border) / size)
                out[i, j, a + 2] = np.log(grown) / scale[a + 2]
            else:
                center = x[i, j, a] * scale[a] * size + middle
                extent = np.exp(x[i, j, a + 2] * scale[a + 2]) * size
                out[i, j, a] = center - extent / 2
                out[i, j, a + 2] = center + extent / 2 - border
    return out


def prior_box(
    x: Array,
    image: Array,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float] = (),
    aspect_ratios: Sequence[float] = (1.0,),
    variance: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    max_size_second: bool = False,
) -> tuple[Array, Array]:
    (height, width), (rows, columns) = image.shape[2:], x.shape[2:]
    ratios = [1.0]
    for ratio in aspect_ratios:
        if ratio not in ratios:
            ratios.append(ratio)
            ratios += [1 / ratio] if flip else []
    shapes = []
    for at, size in enumerate(min_sizes):
        square = [math.sqrt(size * max_sizes[at])] * 2 if max_sizes else None
        for number, ratio in enumerate(ratios):
            shapes.append([size * math.sqrt(ratio), size / math.sqrt(ratio)])
            if square and number == (0 if max_size_second else len(ratios) - 1):
                shapes.append(square)
    out = np.zeros((rows, columns, len(shapes), 4))
    for i, j, k in np.ndindex(*out.shape[:3]):
        over, down = steps if all(steps) else (width / columns, height / rows)
        y, x_center = (i + offset) * down, (j + offset) * over
        wide, high = shapes[k]
        out[i, j, k] = (
            (x_center - wide / 2) / width,
            (y - high / 2) / height,
            (x_center + wide / 2) / width,
            (y + high / 2) / height,
        )
    return (np.clip(out, 0, 1) if clip else out), np.broadcast_to(variance, out.shape)


def multiclass_nms(
    boxes: Array,
    scores: Array,
    score_threshold: float,
    iou_threshold: float = 0.3,
    nms_top_k: int = -1,
    keep_top_k: int = -1,
    nms_eta: float = 1.0,
    background_label: int = 0,
    normalized: bool = True,
    class_top_k: int = -1,
) -> tuple[Array, Array, Array]:
    found: list[tuple[int, int, int]] = []
    for image in range(len(boxes)):
        kept: list[tuple[int, int]] = []
        for label, row in enumerate(scores[image]):
            places = [b for b in range(len(row)) if row[b] > score_threshold]
            places.sort(key=lambda b, row=row: -row[b])  # type: ignore[misc]
            held: list[int] = []
            limit = iou_threshold
            for b in places[: nms_top_k if nms_top_k >= 0 else None]:
                others = (overlap(boxes[image, b], boxes[image, o], normalized) for o in held)
                if label != background_label and all(shared <= limit for shared in others):
                    held.append(b)
                    limit *= nms_eta if limit > 0.5 else 1.0
            kept += [(label, b) for b in held[: class_top_k if class_top_k >= 0 else None]]
        best = sorted(kept, key=lambda pair: -scores[image][pair])  # stable
        best = best[: keep_top_k if keep_top_k >= 0 else None]
        found += [(image, *pair) for pair in kept if pair in best]
    rows = [[label, scores[i, label, b], *boxes[i, b]] for i, label, b in found]
    index, images = ([row[at] for row in found] for at in (2, 0))
    return np.reshape(rows, (-1, 6)), np.array(index, int), np.array(images, int)


def overlap(a: Array, b: Array, normalized: bool) -> float:
    both = area([*np.maximum(a[:2], b[:2]), *np.minimum(a[2:], b[2:])], normalized)
    union = area(a, normalized) + area(b, normalized) - both
    return both / union if union else 0.0


def area(box: Array | Sequence[float], normalized: bool) -> float:
    width, height = float(box[2] - box[0]), float(box[3] - box[1])
    border = 0.0 if normalized else 1.0
    return 0.0 if min(width, height) < 0 else (width + border) * (height + border)


def boxes_of(*shape: int) -> Values:
    rng = np.random.default_rng(sum(shape))
    begins = rng.uniform(0, 10, (*shape, 2))
    return Values(np.concatenate([begins, begins + rng.uniform(0.5, 6, (*shape, 2))], axis=-1))


def coded(label: str, n: int, m: int, variance: Source | None = None, **attrs: Any) -> Case:
    encodes = attrs.get("code_type", "encode") == "encode"
    inputs: dict[str, Source] = {"x": boxes_of(n) if encodes else Random((n, m, 4))}
    inputs["prior"] = boxes_of(n if attrs.get("axis") == 1 else m)
    if variance is not None:
        inputs["variance"] = variance
    return Case("box_coder", inputs, box_coder, attrs, label=label, ulps=64, magnitude=16.0)


def placed(label: str, shape: tuple[int, int] = (2, 3), **attrs: Any) -> Case:
    inputs = {"x": Random((1, 2, *shape)), "image": Random((1, 3, 12, 21))}
    attrs = {"min_sizes": [4.0], **attrs}
    return Case("prior_box", inputs, prior_box, attrs, label=label)


def detected(label: str, n: int, classes: int, m: int, **attrs: Any) -> Case:
    scores = Random((n, classes, m), low=0.0, high=1.0, distinct=True)
    attrs = {"score_threshold": 0.1, **attrs}
    inputs = {"boxes": boxes_of(n, m), "scores": scores}
    return Case("multiclass_nms", inputs, multiclass_nms, attrs, label=label)


EACH = Random((5, 4), low=0.5)
CASES = (
    *(coded(f"length-{n}", n, 5) for n in LENGTHS),
    *(coded(f"decode-{n}", n, 5, code_type="decode") for n in LENGTHS),
    coded("no-priors", 3, 0),
    *(
        coded(f"{code}-{label}", 3, 5, variance, code_type=code, normalized=normalized)
        for code in ("encode", "decode")
        for label, variance, normalized in (
            ("variance", Random((4,), low=0.5), True),
            ("variances", EACH, True),
            ("pixels", None, False),
            ("pixels-and-variances", EACH, False),
        )
    ),
    coded("rows", 5, 3, EACH, code_type="decode", axis=1),
    placed("square"),
    placed("one-place", (1, 1)),
    placed("no-places", (0, 3)),
    placed("ratios", aspect_ratios=[2.0, 1.0, 3.0, 2.0]),
    placed("flipped", aspect_ratios=[2.0, 3.0], flip=True),
    placed("clipped", clip=True, min_sizes=[9.0]),
    placed("squares", min_sizes=[4.0, 8.0], max_sizes=[8.0, 15.0], aspect_ratios=[2.0]),
    placed("square-second", max_sizes=[8.0], aspect_ratios=[2.0, 3.0], max_size_second=True),
    placed("steps", steps=[5.0, 7.0], offset=0.25, variance=[1.0, 2.0, 3.0, 4.0]),
    placed("one-step", steps=[5.0, 0.0]),
    *(detected(f"length-{m}", 2, 3, m) for m in LENGTHS),
    detected("no-images", 0, 3, 4),
    detected("no-classes", 2, 0, 4),
    detected("many", 2, 4, 60, iou_threshold=0.5),
    detected("few-looked-at", 2, 4, 30, nms_top_k=5),
    detected("few-kept", 2, 4, 30, keep_top_k=7),
    detected("none-kept", 2, 4, 30, keep_top_k=0),
    detected("few-of-a-class", 2, 3, 30, class_top_k=2, background_label=-1),
    detected("no-background", 2, 3, 30, background_label=-1),
    detected("pixels", 2, 3, 30, normalized=False, iou_threshold=0.2),
    detected("falling-threshold", 2, 3, 60, iou_threshold=0.9, nms_eta=0.8),
    detected("no-detection", 2, 3, 9, score_threshold=2.0),
    Case(
        "multiclass_nms",
        {
            "boxes": Values([[[0, 0, 2, 2], [0, 0, 2, 2.5], [5, 5, 5, 5], [5, 5, 5, 5]]]),
            "scores": Values([[[0.5, 0.5, np.nan, np.inf], [0.5, 0.5, 0.5, 0.5]]]),
        },
        multiclass_nms,
        {"score_threshold": 0.25, "background_label": -1, "keep_top_k": 3},
        label="equal-scores-and-no-area",
    ),
)
