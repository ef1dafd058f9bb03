"""Pooling to a given size: the images are cut into that many bins."""

from __future__ import annotations

from itertools import product

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, linear_in
from opwright_std.compositions.selections import pick_in_planes
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
from opwright_std.operators.max_pool import add_place_output, max_pool_grad, require_plane


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


def adaptive_max_pool2d(
    x: Array, out: Array, index: Array, *, output_size: Ints, data_format: str
) -> None:
    images, best = channels_first(x, data_format), channels_first(out, data_format)
    places, width = channels_first(index, data_format), images.shape[3]
    rows, columns = (_bins(*pair) for pair in zip(images.shape[2:], output_size, strict=True))
    for (i, down), (j, across) in product(enumerate(rows), enumerate(columns)):
        covered = images[:, :, down, across]
        n_columns = across.stop - across.start
        flat = covered.reshape(*covered.shape[:2], (down.stop - down.start) * n_columns)
        place = flat.argmax(axis=2)  # of equals the first; NaN is above every number
        best[:, :, i, j] = np.take_along_axis(flat, place[..., None], 2)[..., 0]
        row, column = np.divmod(place, n_columns)
        places[:, :, i, j] = (row + down.start) * width + column + across.start


adaptive_max_pool2d_grad = max_pool_grad("adaptive_max_pool2d_grad")


def _adaptive_shape(ctx: InferContext) -> None:
    """The output has output_size in the place of height and width."""
    n, channels, *sizes = image_dims(ctx)
    require_elements(ctx, sizes)
    set_images(ctx, "out", n, channels, spatial_attr(ctx, "output_size"))


def _adaptive_max_shape(ctx: InferContext) -> None:
    """The outputs have output_size in the place of height and width."""
    require_plane(ctx)
    n, channels, *sizes = image_dims(ctx)
    require_elements(ctx, sizes)
    for slot in ("out", "index"):
        set_images(ctx, slot, n, channels, spatial_attr(ctx, "output_size"))


def _adaptive_maker(op_type: str, comment: str) -> OpMaker:
    maker = OpMaker(op_type).add_comment(
        f"{comment} over the rows from floor(i * height / output_size[0]) to "
        "ceil((i + 1) * height / output_size[0]), the last excluded, and over the columns likewise."
    )
    maker.add_input("x", "float images, [n, channels, height, width] or as data_format says")
    maker.dtypes(*FLOATS)
    maker.add_output("out", "[n, channels, *output_size] or as data_format says, dtype of x")
    maker.same_dtype_as("x")
    maker.add_attr("output_size", list[int], "height and width of out", 2).required()
    maker.between(1, 2**16)  # kernels keep a bin for each, also where there are no images
    return add_data_format(maker)


ADAPTIVE_AVG_POOL2D = _adaptive_maker(
    "adaptive_avg_pool2d",
    "Average pooling to a given size, [1, 1] for the mean of each plane: out[n, c, i, j] = the "
    "mean of x[n, c]",
).build(
    infer_shape=_adaptive_shape,
    gradient=grad_op("adaptive_avg_pool2d_grad", gradient=linear_in("x")),
)

ADAPTIVE_MAX_POOL2D = add_place_output(
    _adaptive_maker(
        "adaptive_max_pool2d",
        "Maximum pooling to a given size, [1, 1] for the maximum of each plane: out[n, c, i, j] = "
        "the greatest element of x[n, c], the first of equal ones, NaN being above every number,",
    )
).build(
    infer_shape=_adaptive_max_shape,
    gradient=grad_op("adaptive_max_pool2d_grad", needs=["index"], gradient=pick_in_planes),
)
