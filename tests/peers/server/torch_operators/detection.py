"""Box operators follow their definitions; RoI operators use PyTorch sampling and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def _area(sides: Tensor, border: float = 0.0) -> Tensor:
    """Return the areas of boxes; a box whose end precedes its start has area 0."""
    extents = sides[..., 2:] - sides[..., :2]
    return torch.where(extents < 0, 0.0, extents + border).prod(-1)


def _iou(x: Tensor, y: Tensor, border: float = 0.0) -> Tensor:
    x, y = x[:, None], y[None]
    begins = torch.maximum(x[..., :2], y[..., :2])
    both = _area(torch.cat([begins, torch.minimum(x[..., 2:], y[..., 2:])], -1), border)
    union = _area(x, border) + _area(y, border) - both
    empty = union == 0
    return torch.where(empty, 0.0 * both, both / torch.where(empty, 1.0, union))


def _keep(order: Sequence[int], overlaps: Tensor, threshold: float, eta: float = 1.0) -> list[int]:
    """Return the boxes that remain after suppression in the given order."""
    kept: list[int] = []
    for box in order:
        if not any(bool(overlaps[other, box] > threshold) for other in kept):
            kept.append(box)
            threshold *= eta if threshold > 0.5 else 1.0
    return kept


def _nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    ranks = [-math.inf if math.isnan(s) else -s for s in scores.tolist()]
    is_number = [not math.isnan(s) for s in scores.tolist()]
    order = sorted(range(len(ranks)), key=lambda i: (is_number[i], ranks[i]))
    return torch.tensor(_keep(order, _iou(boxes, boxes), iou_threshold), dtype=torch.int64)


def _multiclass_nms(
    boxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    iou_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_eta: float,
    background_label: int,
    normalized: bool,
) -> Any:
    rows, places, images = [], [], []
    for image, (sides, by_class) in enumerate(zip(boxes, scores, strict=True)):
        overlaps = _iou(sides, sides, 0.0 if normalized else 1.0)
        found: list[tuple[float, int, int]] = []
        for label, row in enumerate(by_class.tolist()):
            if label == background_label:
                continue
            above = [box for box, score in enumerate(row) if score > score_threshold]
            order = sorted(above, key=lambda box: -row[box])
            order = order if nms_top_k < 0 else order[:nms_top_k]
            kept = _keep(order, overlaps, iou_threshold, nms_eta)
            found += [(row[box], label, box) for box in kept]
        best = sorted(range(len(found)), key=lambda i: -found[i][0])
        best = best if keep_top_k < 0 else best[:keep_top_k]
        for score, label, box in (found[i] for i in sorted(best)):
            rows.append(torch.cat([torch.tensor([label, score], dtype=boxes.dtype), sides[box]]))
            places.append(box)
            images.append(image)
    out = torch.stack(rows) if rows else boxes.new_zeros(0, 6)
    return out, torch.tensor(places, dtype=torch.int64), torch.tensor(images, dtype=torch.int64)


def _measure(boxes: Tensor, border: float) -> tuple[Tensor, Tensor]:
    size = boxes[..., 2:] - boxes[..., :2] + border
    return boxes[..., :2] + size / 2, size


def _box_coder(
    x: Tensor,
    prior: Tensor,
    code_type: str,
    normalized: bool,
    axis: int,
    variance: Tensor | None = None,
) -> Tensor:
    border = 0.0 if normalized else 1.0
    axis = axis if code_type == "decode" else 0
    center, size = (one.unsqueeze(axis) for one in _measure(prior, border))
    shares = torch.ones(4, dtype=x.dtype) if variance is None else variance
    shares = shares if shares.dim() == 1 else shares.unsqueeze(axis)
    if code_type == "encode":
        own = (x[:, None, :2] + x[:, None, 2:]) / 2
        extent = x[:, None, 2:] - x[:, None, :2] + border
        return torch.cat([(own - center) / size, torch.log(torch.abs(extent / size))], -1) / shares
    offsets = x * shares
    own, extent = offsets[..., :2] * size + center, torch.exp(offsets[..., 2:]) * size
    return torch.cat([own - extent / 2, own + extent / 2 - border], -1)


def _ratios(given: Sequence[float], flip: bool) -> list[float]:
    ratios = [1.0]
    for ratio in given:
        if not any(math.isclose(ratio, other, rel_tol=0, abs_tol=1e-6) for other in ratios):
            ratios += [ratio, 1 / ratio] if flip else [ratio]
    return ratios


def _prior_box(
    x: Tensor,
    image: Tensor,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    variance: Sequence[float],
    flip: bool,
    clip: bool,
    steps: Sequence[float],
    offset: float,
    max_size_second: bool,
) -> Any:
    (rows, columns), (height, width) = x.shape[2:], image.shape[2:]
    require(rows * columns > 0, "a map without places")
    across, down = steps if min(steps) > 0 else (width / columns, height / rows)
    sides: list[tuple[float, float]] = []
    for i, size in enumerate(min_sizes):
        shaped = [(size * r**0.5, size * r**-0.5) for r in _ratios(aspect_ratios, flip)]
        square = [(math.sqrt(size * max_sizes[i]),) * 2] if max_sizes else []
        at = 1 if max_size_second else len(shaped)
        sides += shaped[:at] + square + shaped[at:]
    boxes = [
        [
            ((j + offset) * across + sign * w / 2) / width,
            ((i + offset) * down + sign * h / 2) / height,
        ]
        for i in range(rows)
        for j in range(columns)
        for w, h in sides
        for sign in (-1, 1)
    ]
    out = torch.tensor(boxes, dtype=torch.float64).reshape(rows, columns, len(sides), 4)
    out = out.clamp(0, 1) if clip else out
    return out, torch.tensor(variance, dtype=torch.float64).expand(out.shape).clone()


def _sampled(
    image: Tensor,
    begins: Sequence[float],
    extents: Sequence[float],
    bins: Sequence[int],
    ratio: int,
) -> Tensor:
    """Return the mean of the samples of each bin of one box, [channels, *bins]."""
    places = []
    for begin, extent, count in zip(begins, extents, bins, strict=True):
        n = ratio if ratio > 0 else max(math.ceil(extent / count), 0)
        if n == 0:
            return image.sum((1, 2), keepdim=True).expand(-1, *bins) * 0
        steps = torch.arange(count * n, dtype=torch.float64)
        places.append(begin + (steps + 0.5) * (extent / count / n))
    inside, grid = [], []
    for place, size in zip(places, image.shape[1:], strict=True):
        inside.append((place >= -1) & (place <= size))
        held = place.clamp(0, size - 1)
        grid.append(2 * held / (size - 1) - 1 if size > 1 else torch.zeros_like(held))
    points = torch.stack(torch.meshgrid(grid[1], grid[0], indexing="xy"), -1)[None]
    values = F.grid_sample(image[None], points, "bilinear", "border", align_corners=True)[0]
    values = values * (inside[0][:, None] & inside[1][None])
    shape = [n for place, n in zip(places, bins, strict=True) for n in (n, len(place) // n)]
    return values.reshape(len(image), *shape).mean((2, 4))


def _roi_align(
    x: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: Sequence[int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    require(bool(torch.isfinite(x).all()), "samples that leave out pixels which are not finite")
    require(len(rois) > 0, "no boxes")
    require(sampling_ratio < 100, "digits of a sum of a million gradients")
    shift = 0.5 if aligned else 0.0
    found = []
    for box, number in zip((rois.detach() * spatial_scale).tolist(), batch_index, strict=True):
        extents = [box[3] - box[1], box[2] - box[0]]
        extents = extents if aligned else [max(extent, 1.0) for extent in extents]
        begins = [box[1] - shift, box[0] - shift]
        found.append(_sampled(x[number.long()], begins, extents, output_size, sampling_ratio))
    return torch.stack(found)


def _nearest(number: float) -> int:
    return math.floor(abs(number) + 0.5) * (-1 if number < 0 else 1)


def _roi_pool(
    x: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: Sequence[int],
    spatial_scale: float,
) -> Any:
    require(bool(torch.isfinite(x).all()), "borders of minus infinity beside such pixels")
    require(len(rois) > 0, "no boxes")
    (height, width), found = x.shape[2:], []
    for box, number in zip((rois.detach() * spatial_scale).tolist(), batch_index, strict=True):
        left, top, right, bottom = map(_nearest, box)
        extents = [max(bottom - top + 1, 1), max(right - left + 1, 1)]
        require(max(extents) < 2048 and max(abs(left), abs(top)) < 2048, "boxes far outside")
        border = [-left, left + extents[1] - width, -top, top + extents[0] - height]
        # The image is padded before cropping, since a box can be completely outside.
        outer = [max(n, 0) for n in border]
        window = F.pad(x[number.long()], outer, value=-torch.inf)
        window = F.pad(window, [min(n, 0) for n in border])
        found.append(F.adaptive_max_pool2d(window, tuple(output_size)))
    out = torch.stack(found)
    return (torch.where(torch.isinf(out), 0.0, out),)


OPERATORS: dict[str, Function] = {
    "iou": lambda x, y: _iou(x, y),
    "nms": _nms,
    "multiclass_nms": _multiclass_nms,
    "box_coder": _box_coder,
    "prior_box": _prior_box,
    "roi_align": _roi_align,
    "roi_pool": _roi_pool,
}
