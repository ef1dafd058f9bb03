"""Prior boxes of the Single Shot MultiBox Detector at each position of a feature map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, no_gradient
from opwright_std.numerics.dtypes import FLOATS, Array

Numbers = Sequence[float]


def _expand_ratios(ratios: Numbers, flip: bool) -> list[float]:
    """Return 1 and the other distinct ratios, each followed by its reciprocal if `flip`."""
    found = [1.0]
    for ratio in ratios:
        if all(abs(ratio - other) >= 1e-6 for other in found):
            found += [ratio, 1.0 / ratio] if flip else [ratio]
    return found


def _box_sizes(
    min_sizes: Numbers, max_sizes: Numbers, ratios: Numbers, flip: bool, max_size_second: bool
) -> Array:
    """Return width and height of each prior box, [priors, 2]."""
    expanded = _expand_ratios(ratios, flip)
    sizes: list[tuple[float, float]] = []
    for i, size in enumerate(min_sizes):
        shaped = [(size * ratio**0.5, size / ratio**0.5) for ratio in expanded]
        between = [((size * max_sizes[i]) ** 0.5,) * 2] if max_sizes else []
        sizes += shaped[:1] + between + shaped[1:] if max_size_second else shaped + between
    return np.array(sizes)


def prior_box(
    image: Array,
    out: Array,
    variances: Array,
    *,
    min_sizes: Numbers,
    max_sizes: Numbers,
    aspect_ratios: Numbers,
    variance: Numbers,
    flip: bool,
    clip: bool,
    steps: Numbers,
    offset: float,
    max_size_second: bool,
) -> None:
    variances[...] = variance
    if out.size == 0:
        return
    halves = _box_sizes(min_sizes, max_sizes, aspect_ratios, flip, max_size_second) / 2
    extent = np.array(image.shape[:1:-1], float)  # width, height
    counts = np.array(out.shape[1::-1], float)
    given = np.array(steps, float)
    pitch = given if (given > 0).all() else extent / counts
    rows, columns = np.indices(out.shape[:2])
    centers = (np.stack([columns, rows], axis=2) + offset) * pitch
    corners = [centers[:, :, None] - halves, centers[:, :, None] + halves]
    boxes = np.concatenate([corner / extent for corner in corners], axis=3)
    out[...] = np.clip(boxes, 0, 1) if clip else boxes


def _check_numbers(ctx: InferContext) -> None:
    """Check that sizes and ratios are positive, and that lists have the required lengths."""
    for name in ("min_sizes", "max_sizes", "aspect_ratios"):
        values = ctx.attr(name)
        ctx.require(
            all(0 < value < float("inf") for value in values),
            f"{name} must be finite and positive, got {list(values)}",
        )
    lows, highs = ctx.attr("min_sizes"), ctx.attr("max_sizes")
    ctx.require(lows, "min_sizes must have at least one size, got none")
    ctx.require(
        len(highs) in (0, len(lows)),
        f"max_sizes must be empty or have a size for each of min_sizes, got {len(highs)} for "
        f"{len(lows)}",
    )
    for name, count in (("variance", 4), ("steps", 2)):
        got = len(ctx.attr(name))
        ctx.require(got == count, f"{name} must have {count} numbers, got {got}")


def _prior_box_shape(ctx: InferContext) -> None:
    """The outputs have four numbers per position of x and prior box."""
    _check_numbers(ctx)
    for slot in ("x", "image"):
        shape = ctx.input(slot).shape
        if len(shape) != 4:
            ctx.fail(f"{slot} must be [n, channels, height, width], got {format_shape(shape)}")
    image = ctx.input("image").shape
    ctx.require(0 not in image[2:], f"image must have pixels, got {format_shape(image)}")
    ratios = _expand_ratios(ctx.attr("aspect_ratios"), ctx.attr("flip"))
    priors = len(ratios) * len(ctx.attr("min_sizes")) + len(ctx.attr("max_sizes"))
    shape = (*ctx.input("x").shape[2:], priors, 4)
    ctx.set_output("out", shape)
    ctx.set_output("variances", shape)


def _prior_box_maker() -> OpMaker:
    maker = OpMaker("prior_box").add_comment(
        "Prior boxes of the Single Shot MultiBox Detector (Liu et al. 2016), as Paddle's "
        "prior_box: around the center of each position of a feature map, boxes of each of "
        "min_sizes "
        "in each aspect ratio, width = size * sqrt(ratio) and height = size / sqrt(ratio), and a "
        "square of side sqrt(size * max_size). Left, top, right and bottom are fractions of the "
        "width and height of the image."
    )
    maker.add_input("x", "float feature map, [n, channels, h, w]; only its shape is read")
    maker.dtypes(*FLOATS).as_shape_only()
    maker.add_input("image", "[n, channels, height, width], dtype of x; only its shape is read")
    maker.same_dtype_as("x")
    maker.add_output("out", "boxes, [h, w, priors, 4], dtype of x").same_dtype_as("x")
    maker.add_output("variances", "variance of each box, shape of out").same_dtype_as("x")
    maker.add_attr("min_sizes", list[float], "sides of boxes, in pixels of the image").required()
    maker.add_attr("max_sizes", list[float], "one for each of min_sizes, or none").default([])
    maker.add_attr("aspect_ratios", list[float], "width / height; 1 is always included")
    maker.default([1.0])
    maker.add_attr("variance", list[float], "four numbers that box_coder divides by")
    maker.default([0.1, 0.1, 0.2, 0.2])
    maker.add_attr("flip", bool, "whether each ratio is followed by its reciprocal").default(False)
    maker.add_attr("clip", bool, "whether boxes are clipped to the image").default(False)
    maker.add_attr(
        "steps",
        list[float],
        "pixels between positions, along width and height; if one is 0, the size of the image "
        "divided by that of the feature map",
    )
    maker.default([0.0, 0.0]).at_least(0.0)
    maker.add_attr("offset", float, "relative position of a center in its cell").default(0.5)
    maker.add_attr(
        "max_size_second",
        bool,
        "whether the square of max_size follows the first ratio instead of all (Paddle's "
        "min_max_aspect_ratios_order)",
    )
    return maker.default(False)


PRIOR_BOX = _prior_box_maker().build(
    infer_shape=_prior_box_shape, gradient=no_gradient("boxes depend on shapes alone")
)
