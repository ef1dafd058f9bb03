"""Test cases of roi_align, roi_pool and nms, computed sample by sample or box by box."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from case import LENGTHS, WIDE, Array, Case, Random, Values


def sampled(plane: Array, y: float, x: float) -> float:
    """Interpolate the four pixels around a position; 0 if it is over one pixel outside."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = math.floor(y), math.floor(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, over = y - top, x - left
    upper = plane[top, left] * (1 - over) + plane[top, right] * over
    lower = plane[bottom, left] * (1 - over) + plane[bottom, right] * over
    return float(upper * (1 - down) + lower * down)


def roi_align(
    x: Array,
    rois: Array,
    batch_index: Array,
    output_size: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Array:
    rows, columns = output_size
    out = np.zeros((len(rois), x.shape[1], rows, columns))
    shift = 0.5 if aligned else 0.0
    for box, channel, i, j in np.ndindex(*out.shape):
        left, top, right, bottom = rois[box] * spatial_scale - shift
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        down = sampling_ratio if sampling_ratio > 0 else math.ceil(height / rows)
        over = sampling_ratio if sampling_ratio > 0 else math.ceil(width / columns)
        plane = x[batch_index[box], channel]
        for a in range(down):
            for b in range(over):
                at = top + (i + (a + 0.5) / down) * height / rows
                to = left + (j + (b + 0.5) / over) * width / columns
                out[box, channel, i, j] += sampled(plane, at, to) / (down * over)
    return out


def corners(begin: float, extent: float, size: int, bin: int, bins: int, samples: int) -> list:
    """Return the pixels along an axis that the samples of a bin read, with their weights."""
    found = []
    for k in range(samples):
        at = begin + (bin + (k + 0.5) / samples) * extent / bins
        inside = -1 <= at <= size
        held = min(max(at, 0.0), size - 1)
        first, share = int(held), held - int(held)
        found += [(first, (1 - share) * inside), (min(first + 1, size - 1), share * inside)]
    return found


def roi_align_places(
    x: Array,
    rois: Array,
    batch_index: Array,
    output_size: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> tuple[Array, Array]:
    index = np.zeros((len(rois), x.shape[1], *output_size), np.int64)
    share = np.zeros(index.shape)
    for box, channel, *bin_at in np.ndindex(*index.shape):
        axes = []
        for axis in range(2):
            begin, end = (rois[box, 1 - axis + k] * spatial_scale for k in (0, 2))
            extent = end - begin if aligned else max(end - begin, 1.0)
            samples = sampling_ratio
            if samples <= 0:
                samples = math.ceil(extent / output_size[axis])
            begin -= 0.5 if aligned else 0.0
            size, bins = x.shape[2 + axis], output_size[axis]
            axes.append(corners(begin, extent, size, bin_at[axis], bins, samples))
        image = batch_index[box]
        best = max(
            ((i, j, a * b) for i, a in axes[0] for j, b in axes[1]),
            key=lambda taken: taken[2] * x[image, channel, taken[0], taken[1]],
        )
        at = (box, channel, *bin_at)
        index[at] = np.ravel_multi_index((image, channel, best[0], best[1]), x.shape)
        share[at] = best[2]
    return index, share


def roi_pool(
    x: Array,
    rois: Array,
    batch_index: Array,
    output_size: Sequence[int],
    spatial_scale: float = 1.0,
) -> tuple[Array, Array]:
    out = np.zeros((len(rois), x.shape[1], *output_size))
    index = np.full(out.shape, -1)
    height, width = x.shape[2:]
    for at in np.ndindex(*out.shape):
        box, channel, *bin_at = at
        first, last = (
            [math.floor(abs(n) + 0.5) * (1 if n >= 0 else -1) for n in corner * spatial_scale]
            for corner in (rois[box, 1::-1], rois[box, 3:1:-1])
        )
        pixels = []
        for axis in range(2):
            extent = max(last[axis] - first[axis] + 1, 1)
            low = bin_at[axis] * extent // output_size[axis]
            high = math.ceil((bin_at[axis] + 1) * extent / output_size[axis])
            size = (height, width)[axis]
            pixels.append(
                [p for p in range(first[axis] + low, first[axis] + high) if 0 <= p < size]
            )
        found = [(row, column) for row in pixels[0] for column in pixels[1]]
        if found:
            plane = x[batch_index[box], channel]
            place = max(found, key=lambda pixel: float(plane[pixel]))
            out[at], index[at] = plane[place], place[0] * width + place[1]
    return out, index


def nms(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    score_threshold: float = -math.inf,
    limit: int = -1,
) -> Array:
    kept: list[int] = []
    for box in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        if len(kept) == limit or -math.inf < scores[box] <= score_threshold:
            break
        if all(overlap(boxes[box], boxes[other]) <= iou_threshold for other in kept):
            kept.append(box)
    return np.array(kept, int)


def batched_nms(
    boxes: Array,
    scores: Array,
    classes: Array,
    iou_threshold: float,
    score_threshold: float = -math.inf,
    limit: int = -1,
    class_limit: int = -1,
) -> Array:
    kept = []
    for own in set(classes):
        places = np.flatnonzero(classes == own)
        of_class = nms(boxes[places], scores[places], iou_threshold, score_threshold, class_limit)
        kept += list(places[of_class])
    kept.sort(key=lambda box: (-scores[box], box))
    return np.array(kept[: None if limit < 0 else limit], int)


def overlap(a: Array, b: Array) -> float:
    both = area([*np.maximum(a[:2], b[:2]), *np.minimum(a[2:], b[2:])])
    union = area(a) + area(b) - both
    return both / union if union else 0.0


def area(box: Array | Sequence[float]) -> float:
    return max(float(box[2] - box[0]), 0.0) * max(float(box[3] - box[1]), 0.0)


def suppressed(
    n: int, threshold: float, label: str, classes: Sequence[int] | None = None, **attrs: Any
) -> Case:
    rng = np.random.default_rng(n)
    begins = rng.uniform(0, 10, (n, 2))
    boxes = np.concatenate([begins, begins + rng.uniform(0.5, 6, (n, 2))], axis=1)
    inputs: dict[str, Any] = {"boxes": Values(boxes), "scores": Random((n,), distinct=True)}
    if classes is not None:
        inputs["classes"] = Values(classes, "int64" if n % 2 else "int32")
    return Case(
        "nms" if classes is None else "batched_nms",
        inputs,
        nms if classes is None else batched_nms,
        {"iou_threshold": threshold, **attrs},
        label=label,
    )


BOXES = (
    [0.3, 0.6, 5.2, 4.1],
    [2.2, 1.3, 3.1, 6.8],
    [-3.4, -2.6, 2.7, 3.2],
    [4.3, 3.4, 11.2, 9.3],
    [20.2, 20.4, 24.3, 22.7],
    [3.3, 2.2, 3.35, 2.25],
)


NONE_GIVEN: Mapping[str, Any] = {}


def regions(
    op: str,
    label: str,
    size: Sequence[int] = (2, 3),
    shape: tuple[int, ...] = (2, 3, 7, 6),
    boxes: Sequence[Sequence[float]] = BOXES,
    given: Mapping[str, Any] = NONE_GIVEN,
    **attrs: Any,
) -> Case:
    return Case(
        op,
        {
            "x": Random(shape, distinct=True),
            "rois": Values(np.array(boxes, float).reshape(-1, 4)),
            "batch_index": Values(np.arange(len(boxes)) % max(shape[0], 1), "int32"),
        },
        {"roi_align": roi_align, "roi_pool": roi_pool}.get(op, roi_align_places),
        {"output_size": list(size), **attrs},
        label=label,
        ulps=16,
        magnitude=2.0,
        **given,
    )


def taken(label: str, **options: Any) -> Case:
    given = {"dtypes": WIDE, "outputs": {"share": 1}, "no_grad": "it is not continuous"}
    return regions("roi_align_places", label, given=given, **options)


CASES = (
    taken("boxes", sampling_ratio=2),
    taken("adaptive", aligned=True, spatial_scale=0.75),
    taken("one-pixel", shape=(1, 1, 1, 1), boxes=([0.1, 0.2, 0.7, 0.8],)),
    taken("no-images", shape=(0, 2, 3, 3), boxes=()),
    *(
        case
        for op in ("roi_align", "roi_pool")
        for case in (
            regions(op, "boxes"),
            regions(op, "one-bin", (1, 1)),
            regions(op, "many-bins", (9, 8)),
            regions(op, "scaled", spatial_scale=0.5),
            regions(op, "one-pixel", shape=(1, 1, 1, 1), boxes=([0.1, 0.2, 0.7, 0.8],)),
            regions(op, "no-boxes", boxes=()),
            regions(op, "no-images", shape=(0, 2, 3, 3), boxes=()),
            regions(op, "no-channels", shape=(1, 0, 3, 3), boxes=([0.1, 0.2, 0.7, 0.8],)),
            *(
                regions(op, f"width-{n}", shape=(1, 2, 3, n), boxes=([0.4, 0.3, n - 0.7, 2.2],))
                for n in LENGTHS
                if n
            ),
        )
    ),
    regions("roi_align", "two-samples", sampling_ratio=2),
    regions("roi_align", "aligned", aligned=True),
    regions("roi_align", "aligned-samples", aligned=True, sampling_ratio=3, spatial_scale=0.75),
    regions("roi_align", "turned", boxes=([4.2, 4.3, 1.1, 1.4],), aligned=True, sampling_ratio=2),
    regions("roi_align", "turned-adaptive", boxes=([4.2, 4.3, 1.1, 1.4],), aligned=True),
    *(suppressed(n, 0.3, f"length-{n}") for n in LENGTHS),
    suppressed(700, 0.5, "many"),
    suppressed(700, 0.95, "most-kept"),
    suppressed(20, 0.0, "none-overlap"),
    suppressed(20, 1.0, "all-kept"),
    suppressed(40, 0.3, "limited", limit=5),
    suppressed(40, 0.3, "classes", classes=[i % 3 - 1 for i in range(40)]),
    suppressed(
        40,
        0.3,
        "classes-limited",
        classes=[i % 3 for i in range(40)],
        limit=7,
        class_limit=3,
        score_threshold=0.1,
    ),
    suppressed(0, 0.3, "classes-0", classes=[]),
    suppressed(40, 0.3, "good-ones", score_threshold=0.25),
    Case(
        "nms",
        {
            "boxes": Values([[0, 0, 2, 2], [0, 0, 2, 2.5], [5, 5, 5, 5], [5, 5, 5, 5]]),
            "scores": Values([0.5, 0.5, -np.inf, np.inf]),
        },
        nms,
        {"iou_threshold": 0.5},
        label="equal-scores-and-no-area",
    ),
    Case(  # areas exceed the largest float16
        "nms",
        {
            "boxes": Values([[0, 0, 512, 512], [0, 0, 512, 500], [0, 0, 512, 100]]),
            "scores": Values([0.5, 0.25, 0.125]),
        },
        nms,
        {"iou_threshold": 0.5},
        dtypes=("float16", "float32", "float64"),
        label="large-areas",
    ),
)
