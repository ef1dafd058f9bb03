"""Average pooling: the mean of each window that slides over images."""

from __future__ import annotations

import numpy as np

from opwright.op import BodyContext, InferContext, OpMaker, grad_op, linear_in
from opwright_std.compositions.fractions import COMMENT, fraction_dtype, in_fractions
from opwright_std.numerics.dtypes import FLOATS, WHOLE, Array
from opwright_std.numerics.windows import (
    Axis,
    Ints,
    add_pool_attrs,
    along,
    axes_of,
    axis_names,
    channels_first,
    infer_pooled,
    lift,
    lift_attrs,
    set_images,
    set_lines,
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
    dilations: Ints,
    divisor: int,
) -> None:
    images, result = channels_first(x, data_format), channels_first(out, data_format)
    axes = axes_of(images, result, kernel, strides or kernel, paddings, dilations)
    # Pooling axis by axis takes as many additions per element as the sum of the kernel sizes, not
    # their product.
    for i, axis in enumerate(axes):
        sums = np.zeros((*result.shape[: 3 + i], *images.shape[3 + i :]), x.dtype)
        for windows, elements in axis.covering_taps():
            sums[along(2 + i, windows)] += images[along(2 + i, elements)]
        images = sums
    result[...] = images / _counts(axes, count_include_pad, divisor, x.dtype)


def _counts(
    axes: list[Axis], include_pad: bool, divisor: int, dtype: np.dtype[np.floating]
) -> Array:
    """Return the divisor of each window, with the spatial shape of out."""
    counts = np.ones((), np.int64)
    if divisor:
        return (counts * divisor).astype(dtype)
    for axis in axes:
        counts = np.multiply.outer(counts, axis.counts(include_pad))
    return counts.astype(dtype)


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
    dilations: Ints,
    divisor: int,
) -> None:
    gradients, result = channels_first(out_grad, data_format), channels_first(x_grad, data_format)
    axes = axes_of(result, gradients, kernel, strides or kernel, paddings, dilations)
    gradients = gradients / _counts(axes, count_include_pad, divisor, out_grad.dtype)
    for i, axis in reversed(list(enumerate(axes))):
        sums = np.zeros((*gradients.shape[: 2 + i], *result.shape[2 + i :]), out_grad.dtype)
        for windows, elements in axis.covering_taps():
            sums[along(2 + i, elements)] += gradients[along(2 + i, windows)]
        gradients = sums
    result[...] = gradients


avg_pool3d, avg_pool3d_grad = avg_pool2d, avg_pool2d_grad


def _avg_pool_shape(ctx: InferContext) -> None:
    """Each spatial axis of the output has one element per window along it."""
    n, channels, pooled = infer_pooled(ctx)
    set_images(ctx, "out", n, channels, pooled, fraction_dtype(ctx.input("x").dtype))


def _avg_pool_maker(rank: int) -> OpMaker:
    windows = ", ".join("ijk"[:rank])
    maker = OpMaker(f"avg_pool{rank}d").add_comment(
        f"Average pooling, out[n, c, {windows}] = the mean of x[n, c] in window {windows}. Padding "
        "does not count; with count_include_pad it counts as elements that are 0, but elements "
        f"beyond it, due to ceil_mode, do not. {COMMENT}"
    )
    names = axis_names(rank)
    maker.add_input("x", f"images, [n, channels, {names}] or per data_format")
    maker.dtypes(*FLOATS, *WHOLE)
    maker.add_output(
        "out", "one element per window; dtype of x if it is a float, else float32"
    ).dtypes(*FLOATS)
    add_pool_attrs(maker, rank)
    maker.add_attr("count_include_pad", bool, "whether the divisor counts the padding too")
    maker.default(False)
    maker.add_attr("divisor", int, "divisor of each sum; 0: the number of elements in the window")
    return maker.default(0).at_least(0).as_added()


def _avg_pool1d_body(b: BodyContext) -> None:
    """Pool 1-d inputs as images of height 1."""
    set_lines(b, b.emit("avg_pool2d", lift(b, "x"), attrs=lift_attrs(b)))


AVG_POOL1D = _avg_pool_maker(1).build(
    infer_shape=_avg_pool_shape, body=in_fractions(_avg_pool1d_body)
)

AVG_POOL2D = _avg_pool_maker(2).build(
    infer_shape=_avg_pool_shape,
    gradient=grad_op("avg_pool2d_grad", gradient=linear_in("x")),
    body=in_fractions(),
)

AVG_POOL3D = _avg_pool_maker(3).build(
    infer_shape=_avg_pool_shape,
    gradient=grad_op("avg_pool3d_grad", gradient=linear_in("x")),
    body=in_fractions(),
)
