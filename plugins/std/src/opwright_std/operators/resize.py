"""resize: resample the last axes of a tensor, by neighbors, filters or means."""

from __future__ import annotations

import math

from opwright.op import BodyContext, InferContext, OpMaker, format_shape, grad_op, linear_in
from opwright_std.compositions.expression import Expression
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.taps import (
    COORDINATES,
    ROUNDINGS,
    Rule,
    crop_coordinates,
    make_taps,
    mix,
    spread,
)
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
    exclude_outside: bool,
    crop: tuple[float, ...],
) -> None:
    rule = Rule(mode, coordinates, rounding, antialias, cubic_coefficient, exclude_outside)
    result = x
    for axis, count, scale, part in _axes(x.ndim, output_size, scales, crop):
        result = mix(result, axis, make_taps(x.shape[axis], count, scale, rule, part))
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
    exclude_outside: bool,
    crop: tuple[float, ...],
) -> None:
    rule = Rule(mode, coordinates, rounding, antialias, cubic_coefficient, exclude_outside)
    result = out_grad
    for axis, count, scale, part in reversed(_axes(x_grad.ndim, output_size, scales, crop)):
        size = x_grad.shape[axis]
        result = spread(result, axis, size, make_taps(size, count, scale, rule, part))
    x_grad[...] = result


Axis = tuple[int, int, float, tuple[float, float]]


def _axes(
    rank: int, counts: Ints, scales: tuple[float, ...], crop: tuple[float, ...]
) -> list[Axis]:
    """Return (axis, new length, scale or 0, range) for each resized axis."""
    factors = scales or (0.0,) * len(counts)
    parts = list(zip(crop[::2], crop[1::2], strict=True)) or [(0.0, 1.0)] * len(counts)
    return list(zip(range(rank - len(counts), rank), counts, factors, parts, strict=True))


def _body(b: BodyContext) -> bool:
    """Emit a nonzero extrapolation value where a mask marks positions outside of x."""
    value, x = b.attr("extrapolation_value"), b.meta(b.input("x") or "")
    if value == 0 or x is None:
        return False
    attrs = {**b.attrs, "extrapolation_value": 0.0}
    resized = Expression(b, b.emit("resize", {"x": b.input("x")}, attrs=attrs))
    axes = _axes(len(x.shape), b.attr("output_size"), b.attr("scales"), b.attr("crop"))
    for axis, count, _, part in axes:
        at = crop_coordinates(x.shape[axis], count, part)
        inside = [float(place) for place in (at >= 0) & (at <= x.shape[axis] - 1)]
        if not all(inside):
            dims = [count if i == axis else 1 for i in range(axis, len(x.shape))]
            attrs = {"values": inside, "shape": dims, "dtype": "bool"}
            mask = Expression(b, b.emit("constant", {}, attrs=attrs))
            resized = mask.choose(resized, resized.filled(value))
    b.set_output("out", resized.name)
    return True


def _grad_body(b: BodyContext) -> bool:
    """Positions outside of x have gradient 0, whatever the extrapolation value is."""
    if b.attr("extrapolation_value") == 0:
        return False
    inputs = {"x": b.input("x"), "out_grad": b.input("out_grad")}
    attrs = {**b.attrs, "extrapolation_value": 0.0}
    b.emit("resize_grad", inputs, {"x_grad": b.output("x_grad")}, attrs)
    return True


def _resize_shape(ctx: InferContext) -> None:
    """The output replaces the last axes with output_size."""
    shape, counts, scales = ctx.input("x").shape, ctx.attr("output_size"), ctx.attr("scales")
    if not 1 <= len(counts) <= len(shape):
        ctx.fail(
            f"output_size must have one number per resized axis, at most the "
            f"{len(shape)} of x {format_shape(shape)}, got {list(counts)}"
        )
    kept = len(shape) - len(counts)
    if 0 in shape[kept:]:
        ctx.fail(f"the resized axes of x must not be empty, got {format_shape(shape)}")
    if scales and len(scales) != len(counts):
        ctx.fail(f"scales must have one factor per element of output_size, got {list(scales)}")
    if not all(map(math.isfinite, scales)):
        ctx.fail(f"scales must be finite, got {list(scales)}")
    mode, coordinates = ctx.attr("mode"), ctx.attr("coordinates")
    if coordinates == "align_corners" and mode in ("nearest", "area"):
        ctx.fail(f"coordinates must not be 'align_corners' for mode={mode!r}, got 'align_corners'")
    crop = ctx.attr("crop")
    if (coordinates == "crop_and_resize") != bool(crop) or (crop and len(crop) != 2 * len(counts)):
        ctx.fail(
            f"crop must have a begin and an end for each of output_size with "
            f"coordinates='crop_and_resize', and be empty otherwise, got {list(crop)}"
        )
    if not all(map(math.isfinite, crop)):
        ctx.fail(f"crop must be finite, got {list(crop)}")
    if ctx.attr("antialias") and (mode not in ("linear", "cubic") or coordinates != "half_pixel"):
        ctx.fail(
            f"antialias must be false except for mode='linear' or 'cubic' with "
            f"coordinates='half_pixel', got mode={mode!r} and coordinates={coordinates!r}"
        )
    ctx.set_output("out", (*shape[:kept], *counts))


RESIZE = (
    OpMaker("resize")
    .add_comment(
        "Resamples the last axes of a tensor, one per element of output_size. Output element i of "
        "an axis is at position (i + 0.5) / s - 0.5 (half_pixel), i / s (asymmetric), or i * (n - "
        "1) / (output_size - 1) (align_corners) among the n input elements, with s = output_size "
        "/ n or the given scale; pytorch_half_pixel is 0 for an output of 1, and "
        "half_pixel_symmetric "
        "keeps the center if scales do not yield output_size exactly. crop_and_resize samples "
        "from the begin to the end of a range, as fractions of n - 1; positions outside of x are "
        "extrapolation_value. nearest takes the element at the rounded position; linear "
        "interpolates two elements, cubic four with Keys' function, with the border repeated; "
        "area takes the means of the bins of adaptive pooling. With antialias the filters widen "
        "as an axis shrinks, and exclude elements outside, as in Pillow. As PyTorch's interpolate "
        "and ONNX's Resize."
    )
    .add_input("x", "float, at least as many axes as output_size has elements")
    .dtypes(*FLOATS)
    .add_output("out", "x with its last axes replaced by output_size, dtype of x")
    .same_dtype_as("x")
    .add_attr("output_size", list[int], "the new lengths of the last axes")
    .as_shape_operand()
    .required()
    .between(1, 2**20)
    .add_attr("mode", str, "interpolation")
    .default("nearest")
    .one_of("nearest", "linear", "cubic", "area")
    .add_attr("coordinates", str, "positions of output elements among input elements")
    .default("half_pixel")
    .one_of(*COORDINATES)
    .add_attr("rounding", str, "rounding for nearest; it matters for ties")
    .default("round_prefer_floor")
    .one_of(*ROUNDINGS)
    .add_attr("antialias", bool, "whether filters widen as an axis shrinks")
    .default(False)
    .add_attr("cubic_coefficient", float, "a of the cubic function: -0.5 and -0.75 are usual")
    .default(-0.75)
    .between(-4.0, 4.0)
    .add_attr(
        "scales", list[float], "scales of lengths, for positions; none: ratios of the lengths"
    )
    .default([])
    .greater_than(0.0)
    .add_attr("exclude_outside", bool, "whether filters exclude elements beyond the ends")
    .default(False)
    .as_added()
    .add_attr(
        "crop", list[float], "begin and end of the range of each axis, 0 and 1 for the whole axis"
    )
    .default([])
    .as_added()
    .add_attr("extrapolation_value", float, "value of crop_and_resize outside of x")
    .default(0.0)
    .as_added()
    .build(
        infer_shape=_resize_shape,
        gradient=grad_op(
            "resize_grad",
            gradient=linear_in("x", extrapolation_value=0.0),
            body=_grad_body,
        ),
        body=_body,
    )
)
