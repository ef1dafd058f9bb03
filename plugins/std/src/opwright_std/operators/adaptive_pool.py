"""Pooling to a given output size: images are divided into `output_size` bins."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from opwright.op import InferContext, OpDefinition, OpMaker, grad_op, linear_in
from opwright_std.compositions.fractions import COMMENT, fraction_dtype, in_fractions
from opwright_std.compositions.selections import pick_in_planes
from opwright_std.numerics.dtypes import FLOATS, NUMBERS, ORDERED, Array
from opwright_std.numerics.windows import (
    Ints,
    add_data_format,
    along,
    axis_names,
    channels_first,
    image_dims,
    require_elements,
    set_images,
    spatial_attr,
)
from opwright_std.operators.max_pool import add_place_output, max_pool_grad, require_plane


def _bins(sizes: Ints, counts: Ints) -> list[list[slice]]:
    """Return the bins of each axis; they overlap if their number does not divide the size."""
    return [
        [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        for size, count in zip(sizes, counts, strict=True)
    ]


def _counts(axes: list[list[slice]], dtype: np.dtype[np.floating]) -> Array:
    """Return the number of elements of each bin."""
    counts = np.ones((), np.int64)
    for bins in axes:
        counts = np.multiply.outer(counts, [bin.stop - bin.start for bin in bins])
    return counts.astype(dtype)


def adaptive_avg_pool2d(x: Array, out: Array, *, output_size: Ints, data_format: str) -> None:
    images, result = channels_first(x, data_format), channels_first(out, data_format)
    axes = _bins(images.shape[2:], output_size)
    counts = _counts(axes, x.dtype)
    for axis, bins in enumerate(axes, 2):
        parts = [images[along(axis, bin)].sum(axis, keepdims=True) for bin in bins]
        images = np.concatenate(parts, axis)
    result[...] = images / counts


def adaptive_avg_pool2d_grad(
    out_grad: Array, x_grad: Array, *, output_size: Ints, data_format: str
) -> None:
    gradients, result = channels_first(out_grad, data_format), channels_first(x_grad, data_format)
    axes = _bins(result.shape[2:], output_size)
    gradients = gradients / _counts(axes, out_grad.dtype)
    for axis, bins in reversed(list(enumerate(axes, 2))):
        shape = (*gradients.shape[:axis], result.shape[axis], *gradients.shape[axis + 1 :])
        sums = np.zeros(shape, out_grad.dtype)
        for i, bin in enumerate(bins):
            sums[along(axis, bin)] += gradients[along(axis, slice(i, i + 1))]
        gradients = sums
    result[...] = gradients


def adaptive_max_pool2d(
    x: Array, out: Array, index: Array, *, output_size: Ints, data_format: str
) -> None:
    images, best = channels_first(x, data_format), channels_first(out, data_format)
    places, sizes = channels_first(index, data_format), images.shape[2:]
    for bins in product(*map(enumerate, _bins(sizes, output_size))):
        at, parts = zip(*bins, strict=True)
        covered = images[(slice(None), slice(None), *parts)]
        flat = covered.reshape(*covered.shape[:2], math.prod(covered.shape[2:]))
        place = flat.argmax(axis=2)  # the first of equal maxima; NaN is above every number
        best[(..., *at)] = np.take_along_axis(flat, place[..., None], 2)[..., 0]
        inside = np.unravel_index(place, covered.shape[2:])
        begun = [i + part.start for i, part in zip(inside, parts, strict=True)]
        places[(..., *at)] = np.ravel_multi_index(begun, sizes)


adaptive_avg_pool3d, adaptive_avg_pool3d_grad = adaptive_avg_pool2d, adaptive_avg_pool2d_grad
adaptive_max_pool3d = adaptive_max_pool2d
adaptive_max_pool2d_grad = max_pool_grad("adaptive_max_pool2d_grad")
adaptive_max_pool3d_grad = max_pool_grad("adaptive_max_pool3d_grad")


def _adaptive_shape(ctx: InferContext) -> None:
    """The output replaces the spatial axes with output_size."""
    n, channels, *sizes = image_dims(ctx)
    require_elements(ctx, sizes)
    dtype = fraction_dtype(ctx.input("x").dtype)
    set_images(ctx, "out", n, channels, spatial_attr(ctx, "output_size"), dtype)


def _adaptive_max_shape(ctx: InferContext) -> None:
    """The outputs replace the spatial axes with output_size."""
    require_plane(ctx)
    n, channels, *sizes = image_dims(ctx)
    require_elements(ctx, sizes)
    for slot in ("out", "index"):
        set_images(ctx, slot, n, channels, spatial_attr(ctx, "output_size"))


def _adaptive_maker(op_type: str, rank: int, comment: str, *, is_fraction: bool) -> OpMaker:
    names = axis_names(rank)
    more = f" {COMMENT}" if is_fraction else ""
    maker = OpMaker(op_type).add_comment(
        f"{comment} along each axis from floor(i * size / output_size) to "
        f"ceil((i + 1) * size / output_size), the last excluded.{more}"
    )
    maker.add_input("x", f"images, [n, channels, {names}] or per data_format")
    maker.dtypes(*(ORDERED if is_fraction else NUMBERS))
    maker.add_output("out", "[n, channels, *output_size] or per data_format")
    if is_fraction:
        maker.dtypes(*FLOATS)
    else:
        maker.same_dtype_as("x")
    maker.add_attr("output_size", list[int], f"sizes of out: {names}", rank).required()
    maker.between(1, 2**16)  # kernels allocate all bins, even without images
    return add_data_format(maker, rank)


def _average(rank: int) -> OpDefinition:
    windows = ", ".join("ijk"[:rank])
    op_type = f"adaptive_avg_pool{rank}d"
    return _adaptive_maker(
        op_type,
        rank,
        f"Average pooling to a given size, [1, ..., 1] for the mean of each plane: out[n, c, "
        f"{windows}] = the mean of x[n, c]",
        is_fraction=True,
    ).build(
        infer_shape=_adaptive_shape,
        gradient=grad_op(f"{op_type}_grad", gradient=linear_in("x")),
        body=in_fractions(),
    )


def _greatest(rank: int) -> OpDefinition:
    windows = ", ".join("ijk"[:rank])
    op_type = f"adaptive_max_pool{rank}d"
    maker = _adaptive_maker(
        op_type,
        rank,
        "Maximum pooling to a given size, [1, ..., 1] for the maximum of each plane: out[n, c, "
        f"{windows}] = the greatest element of x[n, c], the first of equal ones, NaN being above "
        "every number,",
        is_fraction=False,
    )
    return add_place_output(maker, axis_names(rank)).build(
        infer_shape=_adaptive_max_shape,
        gradient=grad_op(f"{op_type}_grad", needs=["index"], gradient=pick_in_planes),
    )


ADAPTIVE_AVG_POOL2D, ADAPTIVE_AVG_POOL3D = _average(2), _average(3)
ADAPTIVE_MAX_POOL2D, ADAPTIVE_MAX_POOL3D = _greatest(2), _greatest(3)
