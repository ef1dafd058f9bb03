"""Maximum pooling: the greatest element of each window that slides over images."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.windows import (
    Ints,
    add_pool_attrs,
    axes_of,
    channels_first,
    image_dims,
    infer_pooled,
    over_taps,
    set_images,
)

_MAX_PLANE = 2**31 - 1


def max_pool2d(
    x: Array,
    out: Array,
    index: Array,
    *,
    kernel: Ints,
    strides: Ints,
    paddings: Ints,
    ceil_mode: bool,
    data_format: str,
) -> None:
    images, best = channels_first(x, data_format), channels_first(out, data_format)
    places = channels_first(index, data_format)
    positions = np.arange(images.shape[2] * images.shape[3], dtype=index.dtype)
    positions = positions.reshape(1, 1, *images.shape[2:])
    height, width = axes_of(images, best, kernel, strides or kernel, paddings)
    taps = list(over_taps(height.covering_taps(), width.covering_taps()))
    best[...] = -np.inf
    for windows, elements in taps:
        np.maximum(best[windows], images[elements], out=best[windows])  # passes NaN on
    # Backwards, so that the first of equals is written last.
    for windows, elements in reversed(taps):
        new = images[elements]
        found = (new == best[windows]) | (new != new)
        np.copyto(places[windows], positions[elements], where=found)


def max_pool2d_grad(
    index: Array, out_grad: Array, x_grad: Array, *, data_format: str, **_: object
) -> None:
    places, slopes = channels_first(index, data_format), channels_first(out_grad, data_format)
    result = channels_first(x_grad, data_format)
    plane = result.shape[2] * result.shape[3]
    check_ids("max_pool2d_grad: index", index, plane)
    n_planes = result.shape[0] * result.shape[1]
    flat = places.astype(np.int64) + (np.arange(n_planes) * plane).reshape(*places.shape[:2], 1, 1)
    sums = np.bincount(flat.reshape(-1), slopes.reshape(-1), minlength=n_planes * plane)
    result[...] = sums.reshape(result.shape)


def _max_pool2d_shape(ctx: InferContext) -> None:
    """The output has the number of windows in the place of height and width."""
    _, _, height, width = image_dims(ctx)
    if min(height, width) > 0 and height * width > _MAX_PLANE:
        ctx.fail(f"x must have at most {_MAX_PLANE} elements in a plane, got {height} x {width}")
    n, channels, *pooled = infer_pooled(ctx)
    for slot in ("out", "index"):
        set_images(ctx, slot, n, channels, pooled)


MAX_POOL2D = add_pool_attrs(
    OpMaker("max_pool2d")
    .add_comment(
        "Maximum pooling, out[n, c, i, j] = the greatest element of x[n, c] in window i, j; "
        "padding is never the greatest. Of equal elements the first in row-major order is taken, "
        "and gets the gradient. NaN counts as greater than every number, as in numpy.argmax."
    )
    .add_input("x", "float images, [n, channels, height, width] or as data_format says")
    .dtypes(*FLOATS)
    .add_output("out", "one element a window, dtype of x")
    .same_dtype_as("x")
    .add_output(
        "index", "shape of out: where the maximum was, row * width + column, the same for NHWC"
    )
    .dtypes("int32")
    .as_intermediate()
).build(
    infer_shape=_max_pool2d_shape,
    # Half the size of an int64, a quarter of what keeping x would take for windows of 2 x 2.
    gradient=grad_op("max_pool2d_grad", needs=["index"]),
)
