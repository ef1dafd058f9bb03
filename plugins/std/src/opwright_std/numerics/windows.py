"""Windows that slide over the two spatial axes of images: their sizes, and what they cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape
from opwright_std.numerics.dtypes import Array

Ints = tuple[int, ...]
Taps = list[tuple[slice, slice]]

_MAX_PADDED = 2**31 - 1

FORMATS = ("NCHW", "NHWC")
_SIDES = ("top", "bottom", "left", "right")


class Axis(NamedTuple):
    """One spatial axis and the windows that slide along it.

    Window o covers the elements ``o * stride - before + tap * dilation``, ``0 <= tap < kernel``.

    Attributes
    ----------
    size, out : int
        Elements of the input, and windows.
    kernel, stride, before, after, dilation : int
        Taps of a window, distance of two windows, padding on both sides, distance of two taps.
    """

    size: int
    out: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int = 1

    def taps(self) -> Taps:
        """Return for each tap the windows in which it covers an element, and these elements."""
        return [self._tap(tap * self.dilation - self.before) for tap in range(self.kernel)]

    def covering_taps(self) -> Taps:
        """Return `taps` without those that cover nothing: windows may reach far beyond an image."""
        return [self._tap(tap * self.dilation - self.before) for tap in self._find_covering()]

    def _find_covering(self) -> Iterable[int]:
        if self.kernel <= self.out * self.size:
            return range(self.kernel)
        begins = (window * self.stride - self.before for window in range(self.out))
        places = {at - begin for begin in begins for at in range(self.size)}
        taps = {place // self.dilation for place in places if place % self.dilation == 0}
        return sorted(tap for tap in taps if 0 <= tap < self.kernel)

    def _tap(self, shift: int) -> tuple[slice, slice]:
        first = max(-(shift // self.stride), 0)
        count = max(min((self.size - 1 - shift) // self.stride + 1, self.out) - first, 0)
        begin = first * self.stride + shift
        return (
            slice(first, first + count),
            slice(begin, begin + count * self.stride, self.stride),
        )

    def counts(self, include_pad: bool) -> Array:
        """Return how many elements each window covers, with or without the padding."""
        begins = np.arange(self.out) * self.stride - self.before
        ends = begins + self.kernel
        if include_pad:
            # What ceil_mode lets stick out beyond the padding is nothing at all.
            return np.minimum(ends, self.size + self.after) - begins
        return np.minimum(ends, self.size) - np.maximum(begins, 0)


def axes_of(
    x: Array, out: Array, kernel: Ints, strides: Ints, paddings: Ints, dilations: Ints = (1, 1)
) -> tuple[Axis, Axis]:
    """Return the height and the width of images, both arrays being [n, channels, height, width]."""
    height, width = (
        Axis(
            x.shape[2 + i],
            out.shape[2 + i],
            kernel[i],
            strides[i],
            paddings[2 * i],
            paddings[2 * i + 1],
            dilations[i],
        )
        for i in range(2)
    )
    return height, width


def over_taps(height: Taps, width: Taps) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Give for each tap, row by row, where it is in the outputs and where in the inputs."""
    every = slice(None)
    for rows_out, rows in height:
        for columns_out, columns in width:
            yield (every, every, rows_out, columns_out), (every, every, rows, columns)


def channels_first(array: Array, data_format: str) -> Array:
    """Return a view [n, channels, height, width] of images."""
    return array.transpose(0, 3, 1, 2) if data_format == "NHWC" else array


# -- in shape rules --------------------------------------------------------------------------------


def image_dims(ctx: InferContext) -> tuple[int, int, int, int]:
    """Return batch, channels, height and width of x."""
    shape, data_format = ctx.input("x").shape, ctx.attr("data_format")
    if len(shape) != 4:
        wanted = "[n, channels, height, width]"
        if data_format == "NHWC":
            wanted = "[n, height, width, channels]"
        ctx.fail(f"x must be {wanted} for {data_format}, got {format_shape(shape)}")
    n, a, b, c = shape
    return (n, c, a, b) if data_format == "NHWC" else (n, a, b, c)


def set_images(ctx: InferContext, slot: str, n: int, channels: int, spatial: Sequence[int]) -> None:
    """Set the shape of an output that holds images."""
    if ctx.attr("data_format") == "NHWC":
        ctx.set_output(slot, (n, *spatial, channels))
    else:
        ctx.set_output(slot, (n, channels, *spatial))


def pair_attr(ctx: InferContext, name: str) -> tuple[int, int]:
    """Return the two numbers of an attribute, for the height and for the width."""
    value = ctx.attr(name)
    if len(value) != 2:
        got = list(value)
        ctx.fail(f"{name} must hold a number for the height and one for the width, got {got}")
    return value[0], value[1]


def paddings_attr(ctx: InferContext) -> tuple[int, int, int, int]:
    """Return the paddings: top, bottom, left, right."""
    value = ctx.attr("paddings")
    if len(value) != 4:
        ctx.fail(f"paddings must hold {', '.join(_SIDES)}, got {list(value)}")
    return value[0], value[1], value[2], value[3]


def infer_windows(
    ctx: InferContext,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> tuple[int, int]:
    """Return how many windows fit into the height and the width, -1 where that is not known."""
    paddings = paddings_attr(ctx)
    counts = []
    for i, name in enumerate(("height", "width")):
        size, before, after = sizes[i], paddings[2 * i], paddings[2 * i + 1]
        if size < 0 or kernel[i] < 0:
            counts.append(-1)
            continue
        if before + size + after > _MAX_PADDED:
            ctx.fail(
                f"the padded {name} must be at most {_MAX_PADDED}, got {before} + {size} + {after}"
            )
        reach = (kernel[i] - 1) * dilations[i] + 1
        room = size + before + after - reach
        if room < 0:
            ctx.fail(
                f"the kernel must fit into the padded {name}, got a kernel that covers {reach} of "
                f"{before} + {size} + {after}; take a smaller kernel or more padding"
            )
        count = room // strides[i] + 1
        # The window that ceil_mode adds must begin in the input or in the padding before it.
        if ceil_mode and room % strides[i] and count * strides[i] < before + size:
            count += 1
        counts.append(count)
    return counts[0], counts[1]


def infer_pooled(ctx: InferContext) -> tuple[int, int, int, int]:
    """Return batch, channels, height and width of what pooling gives, and check its attributes."""
    n, channels, *sizes = image_dims(ctx)
    kernel = pair_attr(ctx, "kernel")
    strides = pair_attr(ctx, "strides") if ctx.attr("strides") else kernel
    for i, padding in enumerate(paddings_attr(ctx)):
        if padding >= kernel[i // 2]:
            # A window could cover nothing but padding.
            ctx.fail(
                f"paddings must be smaller than the kernel, got {_SIDES[i]} {padding} for "
                f"kernel={list(kernel)}; pad the input first"
            )
    require_elements(ctx, sizes)
    ceil_mode = ctx.attr("ceil_mode")
    return n, channels, *infer_windows(ctx, sizes, kernel, strides, ceil_mode=ceil_mode)


def require_elements(ctx: InferContext, sizes: Sequence[int]) -> None:
    """Fail for images without height or width, of which there is no mean and no maximum."""
    if 0 in sizes:
        shape = format_shape(ctx.input("x").shape)
        ctx.fail(f"the height and the width of x must be at least 1, got {shape}")


# -- in descriptions -------------------------------------------------------------------------------


def add_data_format(maker: OpMaker) -> OpMaker:
    """Add the attribute that names the order of the axes of images."""
    return (
        maker.add_attr("data_format", str, "order of the axes of x and out")
        .default("NCHW")
        .one_of(*FORMATS)
    )


def add_pool_attrs(maker: OpMaker) -> OpMaker:
    """Add what the windows of pooling have in common."""
    maker.add_attr("kernel", list[int], "size of a window: height, width").required().at_least(1)
    maker.add_attr("strides", list[int], "distance of two windows: height, width; none: the kernel")
    maker.default([]).at_least(1)
    maker.add_attr("paddings", list[int], "top, bottom, left, right, each smaller than the kernel")
    maker.default([0, 0, 0, 0]).at_least(0)
    maker.add_attr(
        "ceil_mode",
        bool,
        "whether a last window may stick out beyond the padding, if it begins before it",
    ).default(False)
    return add_data_format(maker)
