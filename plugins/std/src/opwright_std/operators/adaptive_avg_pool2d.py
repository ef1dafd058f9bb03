"""Average pooling to a given size: the images are cut into that many bins."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    Ints,
    add_data_format,
    channels_first,
    image_dims,
    pair_attr,
    require_elements,
    set_images,
)


def _bins(size: int, count: int) -> list[slice]:
    """Return `count` bins that cover an axis; those of sizes that do not divide it overlap."""
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _counts(rows: list[slice], columns: list[slice], dtype: np.dtype[np.floating]) -> Array:
    """Return the number of elements of each bin."""
    heights, widths = ([bin.stop - bin.start for bin in bins] for bins in (rows, columns))
    return np.outer(heights, widths).astype(dtype)


def adaptive_avg_pool2d(x: Array, out: Array, *, output_size: Ints, data_format: str) -> None:
    images, result = channels_first(x, data_format), channels_first(out, data_format)
    rows, columns = (_bins(*pair) for pair in zip(images.shape[2:], output_size, strict=True))
    sums = np.empty((*result.shape[:3], images.shape[3]), x.dtype)
    for i, part in enumerate(rows):
        np.sum(images[:, :, part], axis=2, out=sums[:, :, i])
    for j, part in enumerate(columns):
        np.sum(sums[..., part], axis=3, out=result[..., j])
    result /= _counts(rows, columns, x.dtype)


def adaptive_avg_pool2d_grad(
    out_grad: Array, x_grad: Array, *, output_size: Ints, data_format: str
) -> None:
    slopes, result = channels_first(out_grad, data_format), channels_first(x_grad, data_format)
    rows, columns = (_bins(*pair) for pair in zip(result.shape[2:], output_size, strict=True))
    slopes = slopes / _counts(rows, columns, out_grad.dtype)
    sums = np.zeros((*slopes.shape[:3], result.shape[3]), out_grad.dtype)
    for j, part in enumerate(columns):
        sums[..., part] += slopes[..., j : j + 1]
    result[...] = 0
    for i, part in enumerate(rows):
        result[:, :, part] += sums[:, :, i : i + 1]


def _adaptive_avg_pool2d_shape(ctx: InferContext) -> None:
    """The output has output_size in the place of height and width."""
    n, channels, *sizes = image_dims(ctx)
    require_elements(ctx, sizes)
    set_images(ctx, "out", n, channels, pair_attr(ctx, "output_size"))


ADAPTIVE_AVG_POOL2D = add_data_format(
    OpMaker("adaptive_avg_pool2d")
    .add_comment(
        "Average pooling to a given size, out[n, c, i, j] = the mean of x[n, c] over the rows from "
        "floor(i * height / output_size[0]) to ceil((i + 1) * height / output_size[0]), the last "
        "excluded, and over the columns likewise. output_size [1, 1] gives the mean of each plane."
    )
    .add_input("x", "float images, [n, channels, height, width] or as data_format says")
    .dtypes(*FLOATS)
    .add_output("out", "[n, channels, *output_size] or as data_format says, dtype of x")
    .same_dtype_as("x")
    .add_attr("output_size", list[int], "height and width of out")
    .required()
    .between(1, 2**16)  # kernels keep a bin for each, also where there are no images
).build(infer_shape=_adaptive_avg_pool2d_shape, gradient=grad_op("adaptive_avg_pool2d_grad"))
