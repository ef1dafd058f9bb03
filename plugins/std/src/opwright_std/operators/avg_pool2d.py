"""Average pooling: the mean of each window that slides over images."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    Axis,
    Ints,
    add_pool_attrs,
    axes_of,
    channels_first,
    infer_pooled,
    set_images,
)


def avg_pool2d(
    x: Array,
    out: Array,
    *,
    kernel: Ints,
    strides: Ints,
    paddings: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    data_format: str,
) -> None:
    images, result = channels_first(x, data_format), channels_first(out, data_format)
    height, width = axes_of(images, result, kernel, strides or kernel, paddings)
    # First down, then across: kernel height + kernel width additions instead of their product.
    rows = np.zeros((*result.shape[:3], images.shape[3]), x.dtype)
    for windows, elements in height.covering_taps():
        rows[:, :, windows] += images[:, :, elements]
    result[...] = 0
    for windows, elements in width.covering_taps():
        result[..., windows] += rows[..., elements]
    result /= _counts(height, width, count_include_pad, x.dtype)


def _counts(height: Axis, width: Axis, include_pad: bool, dtype: np.dtype[np.floating]) -> Array:
    """Return what the sum of each window is divided by, [height, width] of out."""
    return np.outer(height.counts(include_pad), width.counts(include_pad)).astype(dtype)


def avg_pool2d_grad(
    out_grad: Array,
    x_grad: Array,
    *,
    kernel: Ints,
    strides: Ints,
    paddings: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    data_format: str,
) -> None:
    slopes, result = channels_first(out_grad, data_format), channels_first(x_grad, data_format)
    height, width = axes_of(result, slopes, kernel, strides or kernel, paddings)
    slopes = slopes / _counts(height, width, count_include_pad, out_grad.dtype)
    rows = np.zeros((*slopes.shape[:3], result.shape[3]), out_grad.dtype)
    for windows, elements in width.covering_taps():
        rows[..., elements] += slopes[..., windows]
    result[...] = 0
    for windows, elements in height.covering_taps():
        result[:, :, elements] += rows[:, :, windows]


def _avg_pool2d_shape(ctx: InferContext) -> None:
    """The output has the number of windows in the place of height and width."""
    n, channels, *pooled = infer_pooled(ctx)
    set_images(ctx, "out", n, channels, pooled)


AVG_POOL2D = (
    add_pool_attrs(
        OpMaker("avg_pool2d")
        .add_comment(
            "Average pooling, out[n, c, i, j] = the mean of x[n, c] in window i, j. Padding does "
            "not count; with count_include_pad it counts as elements that are 0, but what "
            "ceil_mode lets stick out beyond it does not."
        )
        .add_input("x", "float images, [n, channels, height, width] or as data_format says")
        .dtypes(*FLOATS)
        .add_output("out", "one element a window, dtype of x")
        .same_dtype_as("x")
    )
    .add_attr("count_include_pad", bool, "whether a sum is divided by the padding in it too")
    .default(False)
    .build(infer_shape=_avg_pool2d_shape, gradient=grad_op("avg_pool2d_grad"))
)
