"""Windows that slide over the spatial axes of images: their sizes and the elements they cover.

Images have one, two or three spatial axes; the attribute data_format sets their number and the
position of the channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.op import BodyContext, InferContext, OpMaker, format_shape
from opwright_std.numerics.dtypes import Array

Ints = tuple[int, ...]
Taps = list[tuple[slice, slice]]

_MAX_PADDED = 2**31 - 1

_MOST_CHANNELS: Final = 4
"""Usual numbers of channels in image files: gray, colors and alpha."""

FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
"""Number of spatial axes to data formats: channels first, channels last."""

_AXES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_SIDES = {
    1: ("left", "right"),
    2: ("top", "bottom", "left", "right"),
    3: ("front", "back", "top", "bottom", "left", "right"),
}


class Axis(NamedTuple):
    """One spatial axis and the windows that slide along it.

    Window o covers the elements ``o * stride - before + tap * dilation``, ``0 <= tap < kernel``.

    Attributes
    ----------
    size, out : int
        Elements of the input, and windows.
    kernel, stride, before, after, dilation : int
        Taps of a window, distance between windows, padding on both sides, distance between taps.
    """

    size: int
    out: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int = 1

    def taps(self) -> Taps:
        """Return, for each tap, the windows in which it covers an element, and these elements."""
        return [self._tap(tap * self.dilation - self.before) for tap in range(self.kernel)]

    def covering_taps(self) -> Taps:
        """Return the `taps` that cover an element; windows may extend far beyond an image."""
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
        """Return the number of elements that each window covers, with or without the padding."""
        begins = np.arange(self.out) * self.stride - self.before
        ends = begins + (self.kernel - 1) * self.dilation + 1
        if include_pad:
            # Elements beyond the padding, due to ceil_mode, do not count.
            reach = np.minimum(ends, self.size + self.after) - begins
        else:  # from the first tap after the padding on
            first = np.where(begins < 0, begins % self.dilation, begins)
            reach = np.minimum(ends, self.size) - first
        return -(-reach // self.dilation)


def along(axis: int, part: slice) -> tuple[slice, ...]:
    """Return an index that selects the slice `part` of an axis."""
    return (*[slice(None)] * axis, part)


def axes_of(
    x: Array, out: Array, kernel: Ints, strides: Ints, paddings: Ints, dilations: Ints = ()
) -> list[Axis]:
    """Return the spatial axes of images; x and out are [n, channels, *spatial]."""
    return [
        Axis(
            x.shape[2 + i],
            out.shape[2 + i],
            kernel[i],
            strides[i],
            paddings[2 * i],
            paddings[2 * i + 1],
            dilations[i] if dilations else 1,
        )
        for i in range(len(kernel))
    ]


def over_taps(axes: Sequence[Taps]) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Yield for each tap, in row-major order, its slices of the outputs and of the inputs."""
    every = (slice(None), slice(None))
    for taps in product(*axes):
        yield (*every, *(windows for windows, _ in taps)), (*every, *(at for _, at in taps))


def is_channels_last(data_format: str) -> bool:
    """Return whether the channels are the last axis of images."""
    return data_format.endswith("C")


def channels_first(array: Array, data_format: str) -> Array:
    """Return a view [n, channels, *spatial] of images."""
    return np.moveaxis(array, -1, 1) if is_channels_last(data_format) else array


# -- in shape rules --------------------------------------------------------------------------------


def spatial_rank(data_format: str) -> int:
    """Return the number of spatial axes of this format."""
    return len(data_format) - 2


def image_dims(ctx: InferContext) -> tuple[int, ...]:
    """Return batch, channels and the sizes of the spatial axes of x."""
    shape, data_format = ctx.input("x").shape, ctx.attr("data_format")
    is_last = is_channels_last(data_format)
    if len(shape) != len(data_format):
        names = _AXES[spatial_rank(data_format)]
        wanted = ["n", *names, "channels"] if is_last else ["n", "channels", *names]
        ctx.fail(f"x must be [{', '.join(wanted)}] for {data_format}, got {format_shape(shape)}")
    n, *rest = shape
    return (n, rest[-1], *rest[:-1]) if is_last else tuple(shape)


def set_images(
    ctx: InferContext,
    slot: str,
    n: int,
    channels: int,
    spatial: Sequence[int],
    dtype: str | None = None,
) -> None:
    """Set the shape of an image output, and its dtype if the slot does not declare one."""
    is_last = is_channels_last(ctx.attr("data_format"))
    ctx.set_output(slot, (n, *spatial, channels) if is_last else (n, channels, *spatial), dtype)


def spatial_attr(ctx: InferContext, name: str) -> Ints:
    """Return the numbers of an attribute, one for each spatial axis."""
    value, names = ctx.attr(name), _AXES[spatial_rank(ctx.attr("data_format"))]
    if len(value) != len(names):
        wanted = " and one for the ".join(names)
        ctx.fail(f"{name} must hold a number for the {wanted}, got {list(value)}")
    return tuple(value)


def paddings_attr(ctx: InferContext) -> Ints:
    """Return the paddings: before and after each spatial axis."""
    value, sides = ctx.attr("paddings"), _SIDES[spatial_rank(ctx.attr("data_format"))]
    if len(value) != len(sides):
        ctx.fail(f"paddings must hold {', '.join(sides)}, got {list(value)}")
    return tuple(value)


def infer_windows(
    ctx: InferContext,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int] = (),
    ceil_mode: bool = False,
) -> Ints:
    """Return the number of windows along each spatial axis, -1 if unknown."""
    paddings, counts = paddings_attr(ctx), []
    for i, name in enumerate(_AXES[len(sizes)]):
        size, before, after = sizes[i], paddings[2 * i], paddings[2 * i + 1]
        if size < 0 or kernel[i] < 0:
            counts.append(-1)
            continue
        if before + size + after > _MAX_PADDED:
            ctx.fail(
                f"the padded {name} must be at most {_MAX_PADDED}, got {before} + {size} + {after}"
            )
        reach = (kernel[i] - 1) * (dilations[i] if dilations else 1) + 1
        room = size + before + after - reach
        if room < 0:
            ctx.fail(
                f"the kernel must fit into the padded {name}, got a kernel that covers {reach} of "
                f"{before} + {size} + {after}; take a smaller kernel or more padding"
                f"{_advise_order(ctx, size) if i == len(sizes) - 1 else ''}"
            )
        count = room // strides[i] + 1
        # The extra window of ceil_mode must begin in the input or in the padding before it.
        if ceil_mode and room % strides[i] != 0 and count * strides[i] < before + size:
            count += 1
        counts.append(count)
    return tuple(counts)


def _advise_order(ctx: InferContext, last: int) -> str:
    """Return a hint for the error if the last axis is so short that it seems to be the channels."""
    first, other = FORMATS[spatial_rank(ctx.attr("data_format"))]
    if ctx.attr("data_format") != first or last > _MOST_CHANNELS:
        return ""
    return f", or set data_format={other!r} if the channels of x are its last axis"


def infer_pooled(ctx: InferContext) -> tuple[int, int, Ints]:
    """Check the attributes of pooling; return batch, channels and sizes of its output."""
    n, channels, *sizes = image_dims(ctx)
    kernel = spatial_attr(ctx, "kernel")
    strides = spatial_attr(ctx, "strides") if ctx.attr("strides") else kernel
    dilations = spatial_attr(ctx, "dilations")
    require_elements(ctx, sizes)
    for i, padding in enumerate(paddings_attr(ctx)):
        # Otherwise a window could consist entirely of padding.
        side, axis = _SIDES[len(kernel)][i], i // 2
        if padding > (kernel[axis] - 1) * dilations[axis]:
            got = f"{side} {padding} for kernel={list(kernel)}"
            got += f" and dilations={list(dilations)}" if set(dilations) != {1} else ""
            ctx.fail(f"paddings must be smaller than the kernel, got {got}; pad the input first")
        if padding > 0 and 0 <= sizes[axis] < dilations[axis]:
            ctx.fail(
                f"dilations must be at most the sizes of x without padding, got {dilations[axis]} "
                f"for {sizes[axis]} elements with {side} {padding}; pad the input first"
            )
    ceil_mode = ctx.attr("ceil_mode")
    return n, channels, infer_windows(ctx, sizes, kernel, strides, dilations, ceil_mode)


def require_elements(ctx: InferContext, sizes: Sequence[int]) -> None:
    """Fail for empty images, whose mean and maximum are undefined."""
    if 0 in sizes:
        shape, names = format_shape(ctx.input("x").shape), _AXES[len(sizes)]
        ctx.fail(f"the {' and the '.join(names)} of x must be at least 1, got {shape}")


# -- in descriptions -------------------------------------------------------------------------------


def add_data_format(maker: OpMaker, rank: int = 2) -> OpMaker:
    """Add the attribute for the axis order of images."""
    formats = FORMATS[rank]
    return (
        maker.add_attr("data_format", str, "order of the axes of x and out")
        .default(formats[0])
        .one_of(*formats)
    )


def axis_names(rank: int, joint: str = ", ") -> str:
    """Return the names of the spatial axes, for comments."""
    return joint.join(_AXES[rank])


def side_names(rank: int) -> str:
    """Return the names of the two sides of each spatial axis, for comments."""
    return ", ".join(_SIDES[rank])


def add_pool_attrs(maker: OpMaker, rank: int = 2) -> OpMaker:
    """Add the common attributes of pooling windows."""
    names = axis_names(rank)
    maker.add_attr("kernel", list[int], f"size of a window: {names}", rank).required().at_least(1)
    maker.add_attr(
        "strides", list[int], f"distance between windows: {names}; none: the kernel", rank
    )
    maker.default([]).at_least(1)
    sides = side_names(rank)
    maker.add_attr("paddings", list[int], f"{sides}, each smaller than the kernel", 2 * rank)
    maker.default([0, 0] * rank).at_least(0)
    maker.add_attr(
        "ceil_mode",
        bool,
        "whether the last window may extend beyond the padding, if it begins before its end",
    ).default(False)
    add_data_format(maker, rank)
    maker.add_attr("dilations", list[int], f"distance between elements of a window: {names}", rank)
    return maker.default([1] * rank).at_least(1).as_added()


# -- in the bodies of composites -------------------------------------------------------------------


def lift_attrs(b: BodyContext) -> dict[str, Any]:
    """Convert the attributes of a 1-d operator to attributes for images of height 1."""
    first = {"kernel": 1, "strides": 1, "dilations": 1, "output_padding": 0}
    attrs: dict[str, Any] = {}
    for name in b.attrs:
        value = b.attr(name)
        if name == "data_format":
            attrs[name] = FORMATS[2][FORMATS[1].index(value)]
        elif name == "paddings":
            attrs[name] = [0, 0, *value]
        elif name in first:
            attrs[name] = [first[name], *value] if value else []
        else:
            attrs[name] = value
    return attrs


def lift(b: BodyContext, *slots: str) -> dict[str, str]:
    """Return 1-d inputs as images of height 1."""
    axis = [_height_axis(b)]
    return {slot: b.emit("unsqueeze", {"x": b.input(slot)}, attrs={"axis": axis}) for slot in slots}


def set_lines(b: BodyContext, images: str, slot: str = "out") -> None:
    """Set a 1-d output to images of height 1, without their height axis."""
    b.emit("squeeze", {"x": images}, {"out": b.output(slot)}, {"axis": [_height_axis(b)]})


def _height_axis(b: BodyContext) -> int:
    return 1 if is_channels_last(b.attr("data_format")) else 2


def channels_first_shape(b: BodyContext) -> tuple[int, ...]:
    """Return the batch, channels and spatial sizes of x, each -1 if unknown."""
    data_format, meta = b.attr("data_format"), b.meta(b.inputs("x")[0])
    if meta is None:
        return (-1,) * len(data_format)
    n, *rest = meta.shape
    return (n, rest[-1], *rest[:-1]) if is_channels_last(data_format) else (n, *rest)
