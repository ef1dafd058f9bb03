"""Inputs of operators on images."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def places(draw: Draw) -> Drawn:
    """Propose inputs, with pooling indices inside an image."""
    inputs = draw.propose()
    if inputs is None:
        return None
    shape, data_format = inputs["x"][0].shape, draw.attrs["data_format"]
    if len(shape) == len(data_format):
        sizes = shape[1:-1] if data_format.endswith("C") else shape[2:]
        draw.refused["index"] = (-1, prod(sizes))
    return inputs, draw.attrs


def unpooled(draw: Draw) -> Drawn:
    """Draw distinct indices in a plane, since a repeated index would have no gradient."""
    inputs = draw.propose()
    if inputs is None:
        return None
    count = prod(draw.attrs["output_size"])
    index = inputs["index"][0]
    if index.ndim == 4:
        first = index if draw.attrs["data_format"] == "NCHW" else np.moveaxis(index, -1, 1)
        if prod(first.shape[2:]) > count:
            return None
        places = np.arange(prod(first.shape[2:]), dtype=index.dtype).reshape(first.shape[2:])
        first[...] = count - 1 - places
        draw.refused["index"] = (-1, count)
    return inputs, draw.attrs


def convolution(draw: Draw) -> Drawn:
    """Draw volumes with at most one long axis, to keep them small."""
    return _volumes(draw, transposed=False)


def transposed_convolution(draw: Draw) -> Drawn:
    """Draw as `convolution` does, but the first axis of the weight has the channels of x."""
    return _volumes(draw, transposed=True)


def _volumes(draw: Draw, transposed: bool) -> Drawn:
    attrs, rng = draw.attrs, draw.rng
    kernel = [int(size) for size in rng.integers(1, 4, 3)]
    lengths = {
        "n": int(rng.integers(1, 4)),
        "inputs": draw.other_length(),
        "filters": draw.other_length(),
        "width": int(rng.integers(3, 6)),
    }
    if draw.label != "no short axis":
        place = "n" if draw.rows else draw.choice(list(lengths))
        lengths[place] = draw.length
    sizes = [int(size) for size in rng.integers(1, 5, 2)] + [lengths["width"]]
    if not transposed:
        reach = ((k - 1) * d for k, d in zip(kernel, attrs["dilations"], strict=True))
        sizes = [size + more for size, more in zip(sizes, reach, strict=True)]
    groups = attrs["groups"]
    channels, filters = lengths["inputs"] * groups, lengths["filters"] * groups
    pair = (channels, lengths["filters"]) if transposed else (filters, lengths["inputs"])
    last = attrs["data_format"].endswith("C")
    shape = (lengths["n"], *sizes, channels) if last else (lengths["n"], channels, *sizes)
    inputs = {"x": draw.floats(shape), "weight": draw.floats((*pair, *kernel))}
    if rng.random() < 0.5:
        inputs["bias"] = draw.floats((filters,))
    return inputs, attrs


def pooled_volumes(draw: Draw) -> Drawn:
    """Draw volumes with at most one long axis, with padding for count_include_pad."""
    rng, given = draw.rng, {}
    kernel = [int(size) for size in rng.integers(1, 4, 3)]
    named = draw.label.partition(" ")[0]
    if named not in ("kernel", "paddings"):
        given = {
            "kernel": kernel,
            "paddings": [int(rng.integers(0, k)) for k in kernel for _ in "ab"],
        }
    lengths = {"n": int(rng.integers(1, 4)), "channels": draw.other_length(), "width": 4}
    if draw.label != "no short axis":
        lengths["n" if draw.rows else draw.choice(list(lengths))] = draw.length
    sizes = (*(int(size) for size in rng.integers(3, 6, 2)), lengths["width"])
    attrs = {**draw.attrs, **given}
    last = attrs["data_format"].endswith("C")
    inner = (*sizes, lengths["channels"]) if last else (lengths["channels"], *sizes)
    if "index" in draw.definition.output_index:
        draw.refused["index"] = (-1, prod(sizes))
    return {"x": draw.floats((lengths["n"], *inner))}, attrs


def regions(draw: Draw) -> Drawn:
    """Draw boxes inside of images."""
    n, channels = int(draw.rng.integers(1, 3)), draw.other_length()
    height, width = (int(size) for size in draw.rng.integers(3, 8, 2))
    count = draw.length
    if draw.label == "no rows":
        n = 0
    begins, ends = draw.floats((count, 2), -1.0, 3.0), draw.floats((count, 2), 3.0, 9.0)
    draw.refused["batch_index"] = (-1, n)
    draw.drops_nan = "a pixel outside of all boxes is not read, and boxes must be finite"
    attrs = {**draw.attrs, "output_size": [int(size) for size in draw.rng.integers(1, 4, 2)]}
    inputs = {
        "x": draw.floats((n, channels, height, width)),
        "rois": np.concatenate([begins, ends], axis=1),
        "batch_index": draw.integers((count,), 0, n, str(draw.choice(["int32", "int64"]))),
    }
    return inputs, attrs


def scored(draw: Draw) -> Drawn:
    """Draw boxes with correctly ordered corners, and distinct scores."""
    count = draw.length
    boxes = _boxes(draw, (count,))
    draw.drops_nan = "the indices of kept boxes do not show their coordinates"
    inputs = {"boxes": boxes, "scores": draw.floats((count,))}
    if "classes" in draw.definition.proto.input_slots:
        inputs["classes"] = draw.rng.integers(0, 3, count)
    return inputs, draw.attrs


def coded(draw: Draw) -> Drawn:
    """Draw prior boxes of positive area, and boxes with correctly ordered corners or offsets."""
    encodes = draw.attrs["code_type"] == "encode"
    n, m = draw.length, draw.other_length()
    axis = 0 if encodes else draw.attrs["axis"]
    count = n if axis == 1 else m
    inputs = {"x": _boxes(draw, (n,)) if encodes else draw.floats((n, m, 4), -1.0, 1.0)}
    inputs["prior"] = _boxes(draw, (count,))
    if draw.rng.random() < 0.5:
        shape = (4,) if draw.rng.random() < 0.5 else (count, 4)
        inputs["variance"] = draw.floats(shape, 0.5, 2.0)
    return inputs, {**draw.attrs, "axis": axis}


def priors(draw: Draw) -> Drawn:
    """Draw a feature map and an image, and positive sizes and ratios."""
    attrs, rng = draw.attrs, draw.rng
    shape = (1, 1, draw.length, draw.other_length())
    count = int(rng.integers(1, 3))
    drawn = {
        "min_sizes": rng.uniform(1.0, 9.0, count).tolist(),
        "max_sizes": rng.uniform(9.0, 20.0, count).tolist() if rng.random() < 0.5 else [],
        "aspect_ratios": rng.uniform(1.5, 3.0, count).tolist(),
        "variance": rng.uniform(0.1, 1.0, 4).tolist(),
        "steps": rng.uniform(1.0, 4.0, 2).tolist() if rng.random() < 0.5 else [0.0, 0.0],
    }
    draw.drops_nan = "only the shapes of the inputs are read"
    image = (1, 3, *(int(size) for size in rng.integers(8, 20, 2)))
    return {"x": draw.floats(shape), "image": draw.floats(image)}, {**attrs, **drawn}


def classified(draw: Draw) -> Drawn:
    """Draw strongly overlapping boxes, so that nms_eta has an effect, and distinct scores."""
    n, classes, count = int(draw.rng.integers(1, 3)), draw.other_length(), draw.length
    attrs = dict(draw.attrs)
    if draw.label == "no rows":
        n = 0
    if not draw.label.startswith("iou_threshold"):
        attrs["iou_threshold"] = float(draw.rng.uniform(0.6, 0.9))
    draw.drops_nan = "a dropped box is not written"
    scores = draw.floats((n, classes, count))
    return {"boxes": _boxes(draw, (n, count), 1.0), "scores": scores}, attrs


def _boxes(draw: Draw, shape: tuple[int, ...], spread: float = 9.0) -> Any:
    begins, sizes = draw.floats((*shape, 2), 0.0, spread), draw.floats((*shape, 2), 0.5, 5.0)
    return np.concatenate([begins, begins + sizes], axis=-1)


SAMPLES = {
    "adaptive_max_pool2d": places,
    "adaptive_max_pool3d": places,
    "avg_pool3d": pooled_volumes,
    "batched_nms": scored,
    "box_coder": coded,
    "conv3d": convolution,
    "conv3d_transpose": transposed_convolution,
    "max_pool1d": places,
    "max_pool2d": places,
    "max_pool3d": pooled_volumes,
    "max_unpool2d": unpooled,
    "multiclass_nms": classified,
    "nms": scored,
    "prior_box": priors,
    "roi_align": regions,
    "roi_pool": regions,
}
