"""resize: the last axes of a tensor with other lengths, by neighbours, filters or means."""

from __future__ import annotations

import math

from opwright.op import InferContext, OpMaker, format_shape, grad_op, linear_in
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.taps import COORDINATES, ROUNDINGS, Rule, make_taps, mix, spread
from opwright_std.numerics.windows import Ints


def resize(
    x: Array,
    out: Array,
    *,
    output_size: Ints,
    mode: str,
    coordinates: str,
    rounding: str,
    antialias: bool,
    cubic_coefficient: float,
    scales: tuple[float, ...],
) -> None:
    rule = Rule(mode, coordinates, rounding, antialias, cubic_coefficient)
    result = x
    for axis, count, scale in _axes(x.ndim, output_size, scales):
        result = mix(result, axis, make_taps(x.shape[axis], count, scale, rule))
    out[...] = result


def resize_grad(
    out_grad: Array,
    x_grad: Array,
    *,
    output_size: Ints,
    mode: str,
    coordinates: str,
    rounding: str,
    antialias: bool,
    cubic_coefficient: float,
    scales: tuple[float, ...],
) -> None:
    rule = Rule(mode, coordinates, rounding, antialias, cubic_coefficient)
    result = out_grad
    for axis, count, scale in reversed(_axes(x_grad.ndim, output_size, scales)):
        size = x_grad.shape[axis]
        result = spread(result, axis, size, make_taps(size, count, scale, rule))
    x_grad[...] = result


def _axes(rank: int, counts: Ints, scales: tuple[float, ...]) -> list[tuple[int, int, float]]:
    """Return each axis that is resized, with its new length and its factor, 0 for none."""
    factors = scales or (0.0,) * len(counts)
    return list(zip(range(rank - len(counts), rank), counts, factors, strict=True))


def _resize_shape(ctx: InferContext) -> None:
    """The output has output_size in the place of the last axes."""
    shape, counts, scales = ctx.input("x").shape, ctx.attr("output_size"), ctx.attr("scales")
    if not 1 <= len(counts) <= len(shape):
        ctx.fail(
            f"output_size must have a number for each axis that is resized, at most the "
            f"{len(shape)} of x {format_shape(shape)}, got {list(counts)}"
        )
    kept = len(shape) - len(counts)
    if 0 in shape[kept:]:
        ctx.fail(f"the axes of x that are resized must have elements, got {format_shape(shape)}")
    if scales and len(scales) != len(counts):
        ctx.fail(f"scales must have a factor for each of output_size, got {list(scales)}")
    if not all(map(math.isfinite, scales)):
        ctx.fail(f"scales must be finite, got {list(scales)}")
    mode, coordinates = ctx.attr("mode"), ctx.attr("coordinates")
    if coordinates == "align_corners" and mode in ("nearest", "area"):
        ctx.fail(f"coordinates must be others than align_corners for mode={mode!r}, got these")
    if ctx.attr("antialias") and (mode not in ("linear", "cubic") or coordinates != "half_pixel"):
        ctx.fail(
            "antialias must be false but for mode='linear' or 'cubic' with "
            f"coordinates='half_pixel', got mode={mode!r} and coordinates={coordinates!r}"
        )
    ctx.set_output("out", (*shape[:kept], *counts))


RESIZE = (
    OpMaker("resize")
    .add_comment(
        "The last axes of a tensor with other lengths, as many as output_size has numbers. Place i "
        "of an axis lies among the n elements at (i + 0.5) / s - 0.5 (half_pixel), i / s "
        "(asymmetric), i * (n - 1) / (output_size - 1) (align_corners), with s = output_size / n "
        "or what scales has; pytorch_half_pixel is 0 for an output of 1, and half_pixel_symmetric "
        "keeps the middle where scales do not give output_size exactly. nearest takes the element "
        "there, rounded; linear and cubic the two and four around, those at the ends for what lies "
        "beyond, with Keys' cubic function; area the mean of the bins of adaptive pooling. With "
        "antialias the filters are as much wider as an axis shrinks, and leave out what lies "
        "beyond, as in Pillow. As PyTorch's interpolate and ONNX's Resize."
    )
    .add_input("x", "float, at least as many axes as output_size has numbers")
    .dtypes(*FLOATS)
    .add_output("out", "x with output_size in the place of its last axes, dtype of x")
    .same_dtype_as("x")
    .add_attr("output_size", list[int], "the new lengths of the last axes")
    .as_shape_operand()
    .required()
    .between(1, 2**20)
    .add_attr("mode", str, "which elements a place takes")
    .default("nearest")
    .one_of("nearest", "linear", "cubic", "area")
    .add_attr("coordinates", str, "where places lie among the elements")
    .default("half_pixel")
    .one_of(*COORDINATES)
    .add_attr("rounding", str, "which element is nearest; two are as near only half way")
    .default("round_prefer_floor")
    .one_of(*ROUNDINGS)
    .add_attr("antialias", bool, "whether filters are wider where an axis shrinks")
    .default(False)
    .add_attr("cubic_coefficient", float, "a of the cubic function: -0.5 and -0.75 are usual")
    .default(-0.75)
    .between(-4.0, 4.0)
    .add_attr("scales", list[float], "factors of lengths, for places; none: those of the lengths")
    .default([])
    .greater_than(0.0)
    .build(infer_shape=_resize_shape, gradient=grad_op("resize_grad", gradient=linear_in("x")))
)
