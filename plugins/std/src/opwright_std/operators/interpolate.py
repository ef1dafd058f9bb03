"""Resize images: the nearest pixel, or bilinear interpolation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, linear_in
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    Ints,
    add_data_format,
    channels_first,
    image_dims,
    require_elements,
    set_images,
    spatial_attr,
)


class _Taps(NamedTuple):
    """The two input elements around each output element, and the weight of the second.

    Attributes
    ----------
    first, second : int array [places]
        Indices of both elements, which are equal at the ends and for the nearest element.
    share : float array [places]
        In [0, 1).
    """

    first: Array
    second: Array
    share: Array


def _taps(size: int, count: int, mode: str, align_corners: bool) -> _Taps:
    place = np.arange(count)
    if mode == "nearest":
        first = place * size // count
        return _Taps(first, first, np.zeros(count))
    # Positions are fractions of integers, so only the weight is rounded.
    if align_corners:
        over, under = place * (size - 1), max(count - 1, 1)
    else:
        over, under = np.maximum((2 * place + 1) * size - count, 0), 2 * count
    first = over // under
    # Elements of weight 0 are not read, since they may be NaN.
    second = np.where(over % under == 0, first, np.minimum(first + 1, size - 1))
    return _Taps(first, second, over % under / under)


def interpolate(
    x: Array, out: Array, *, output_size: Ints, mode: str, align_corners: bool, data_format: str
) -> None:
    result = images = channels_first(x, data_format)
    for i, count in enumerate(output_size):
        taps = _taps(images.shape[2 + i], count, mode, align_corners)
        first = result.take(taps.first, 2 + i)
        if mode == "nearest":
            result = first
            continue
        share = taps.share.reshape(-1, *[1] * (1 - i)).astype(x.dtype)
        mixed = first * (1 - share) + result.take(taps.second, 2 + i) * share
        result = np.where(share == 0, first, mixed)
    np.copyto(channels_first(out, data_format), result)


def interpolate_grad(
    out_grad: Array,
    x_grad: Array,
    *,
    output_size: Ints,
    mode: str,
    align_corners: bool,
    data_format: str,
) -> None:
    gradients, result = channels_first(out_grad, data_format), channels_first(x_grad, data_format)
    for i in (1, 0):
        taps = _taps(result.shape[2 + i], output_size[i], mode, align_corners)
        sums = np.zeros(
            (result.shape[2 + i], *np.moveaxis(gradients, 2 + i, 0).shape[1:]), x_grad.dtype
        )
        moved = np.moveaxis(gradients, 2 + i, 0)
        share = taps.share.reshape(-1, *[1] * 3).astype(x_grad.dtype)
        np.add.at(sums, taps.first, moved * (1 - share))
        shared = np.flatnonzero(taps.share)  # with weight 0 nothing is added, not even NaN
        np.add.at(sums, taps.second[shared], moved[shared] * share[shared])
        gradients = np.moveaxis(sums, 0, 2 + i)
    np.copyto(result, gradients)


def _interpolate_shape(ctx: InferContext) -> None:
    """The output replaces height and width with output_size."""
    n, channels, *sizes = image_dims(ctx)
    require_elements(ctx, sizes)
    if ctx.attr("align_corners") and ctx.attr("mode") == "nearest":
        ctx.fail("align_corners must be false for mode='nearest', got true; use mode='bilinear'")
    set_images(ctx, "out", n, channels, spatial_attr(ctx, "output_size"))


def _interpolate_maker() -> OpMaker:
    maker = OpMaker("interpolate").add_comment(
        "Resized images. nearest takes the pixel at floor(i * height / output_size[0]) for "
        "row i, columns likewise. bilinear interpolates linearly between the rows next to (i + "
        "0.5) * height / output_size[0] - 0.5, at least 0, or next to i * (height - 1) / "
        "(output_size[0] - 1) with align_corners; columns likewise."
    )
    maker.add_input("x", "float images, [n, channels, height, width] or per data_format")
    maker.dtypes(*FLOATS)
    maker.add_output("out", "[n, channels, *output_size] or per data_format, dtype of x")
    maker.same_dtype_as("x")
    maker.add_attr("output_size", list[int], "height and width of out", 2).required()
    maker.as_shape_operand()
    maker.between(1, 2**20)
    maker.add_attr("mode", str, "which pixels").default("nearest").one_of("nearest", "bilinear")
    maker.add_attr(
        "align_corners", bool, "whether the centers of the corner pixels are aligned"
    ).default(False)
    return add_data_format(maker)


INTERPOLATE = _interpolate_maker().build(
    infer_shape=_interpolate_shape, gradient=grad_op("interpolate_grad", gradient=linear_in("x"))
)
