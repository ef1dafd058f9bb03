"""Pooling over image windows; the gradient of a pixel gathers from the windows that cover it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lines import VECTOR_BYTES, quotient_up
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, count_of
from opwright_cuda.launch.indexing import NARROW, divider
from opwright_cuda.source import own_source

LIMIT: Final = 2**30
"""Limit of the sizes of padded images, so that positions fit into 32 bits."""

WARP: Final = 32
"""Threads that sum one large window together."""

SMALL: Final = 5
"""Maximum window size and stride along each axis for pooling_small.cu."""

ENOUGH_THREADS: Final = 2**18
"""Number of threads that fill any GPU; for more work, each thread processes several elements."""


class Axis(NamedTuple):
    """The size and the windows of one spatial axis; `kernel` is 0 for bins."""

    size: int
    n_windows: int
    kernel: int = 0
    stride: int = 1
    before: int = 0
    after: int = 0
    counts_padding: bool = False
    dilation: int = 1

    @property
    def longest(self) -> int:
        """The maximum number of elements in a window."""
        return self.kernel or -(-self.size // self.n_windows) + 1

    def struct(self) -> Struct:
        """Return ``PoolAxis`` of pooling.cu."""
        dividers = divider(max(self.size, 1)), divider(max(self.n_windows, 1))
        return Struct(np.array(self, np.int32), *dividers)


class Pooling(NamedTuple):
    """The windows of images.

    Attributes
    ----------
    depth, height, width : Axis
        The spatial axes; missing ones have length 1.
    n_outputs, n_pixels : int
        Elements of out and of x.
    channels : int
        Elements between adjacent pixels in a row.
    divisor : int
        The divisor of a window's sum; 0 for the number of its elements.
    """

    depth: Axis
    height: Axis
    width: Axis
    n_outputs: int
    n_pixels: int
    channels: int
    divisor: int = 0

    def struct(self) -> Struct:
        """Return ``Pooling`` of pooling.cu."""
        return Struct(
            self.depth.struct(),
            self.height.struct(),
            self.width.struct(),
            np.array([self.n_outputs, self.n_pixels], np.int64),
            np.array([self.channels, self.divisor], np.int32),
            divider(max(self.channels, 1)),
        )


class Strips(NamedTuple):
    """The work of the small-window kernels, which use one thread per strip of a column.

    Attributes
    ----------
    pooling : Pooling
        The windows.
    vector : int
        Adjacent channels per strip.
    each : int
        Windows per strip; in gradients, cells per strip. A cell consists of the rows of pixels from
        the begin of one window to the begin of the next.
    n_columns, n_strips : int
        Columns per image, and strips per column.
    first_cell : int
        In gradients, the cell of the first row of pixels, counted from the first cell of the
        padding.
    """

    pooling: Pooling
    vector: int
    each: int
    n_columns: int
    n_strips: int
    first_cell: int = 0

    @property
    def n_threads(self) -> int:
        """Number of threads, one per strip."""
        height, width = self.pooling.height, self.pooling.width
        n_images = self.pooling.n_outputs // (height.n_windows * width.n_windows)
        return n_images * self.n_columns * self.n_strips // self.vector

    def struct(self) -> Struct:
        """Return ``Strips`` of pooling_small.h."""
        height, width, channels = self.pooling.height, self.pooling.width, self.pooling.channels
        numbers = np.array([self.n_threads, channels, self.first_cell], np.int32)
        counts = channels // self.vector, self.n_columns, self.n_strips
        return Struct(height.struct(), width.struct(), numbers, *map(divider, counts))

    def launch(
        self, plan: LaunchPlan, name: str, meta: Meta, arguments: Sequence[Argument]
    ) -> None:
        """Add the launch of ``name_small``; `arguments` include `struct` at its position."""
        source = own_source("pooling_small_grad.cu" if "grad" in name else "pooling_small.cu")
        axes = self.pooling.height, self.pooling.width
        window = ", ".join(str(n) for n in (*(a.kernel for a in axes), *(a.stride for a in axes)))
        is_single = "true" if self.pooling.channels == 1 else "false"
        shape = f"{is_single}, {self.vector}, Window<{window}>, {self.each}"
        grid = quotient_up(self.n_threads, THREADS)
        plan.launch(
            source, f"{name}_small<{CTYPES[meta.dtype]}, {shape}>", grid, THREADS, arguments
        )


def _strips(pooling: Pooling, meta: Meta, of_pixels: bool) -> Strips | None:
    """Return strips if pooling_small.cu supports the windows, or None.

    pooling_small.cu supports small windows over height and width, without dilation or a divisor,
    and 32-bit element counts. In a gradient, a row must have at least as many windows as can cover
    one pixel. pooling.cu is used in all other cases.
    """
    height, width = pooling.height, pooling.width
    is_small = all(0 < axis.kernel <= SMALL and axis.stride <= SMALL for axis in (height, width))
    is_plain = height.dilation == width.dilation == 1 and pooling.divisor == 0
    is_narrow = 0 < pooling.n_outputs < NARROW and 0 < pooling.n_pixels < NARROW
    if not (is_small and is_plain and is_narrow and pooling.depth == Axis(1, 1, 1)):
        return None
    vector = math.gcd(VECTOR_BYTES // ITEM_BYTES[meta.dtype], pooling.channels)
    # A thread keeps one vector per neighbor in registers, which limits the window size.
    most = 4 if vector == 1 else 2
    if not of_pixels:
        rows, n_columns, first_cell = height.n_windows, width.n_windows, 0
    else:
        first_cell = height.before // height.stride
        rows = (height.before + height.size - 1) // height.stride + 1 - first_cell
        n_columns = width.size
        if width.n_windows <= (width.kernel - 1) // width.stride:
            return None
        most = max(2 * most // height.stride, 1)
    n_single = Strips(pooling, vector, 1, n_columns, rows).n_threads
    each = next((n for n in (8, 4, 2) if n <= most and n_single >= n * ENOUGH_THREADS), 1)
    return Strips(pooling, vector, each, n_columns, quotient_up(rows, each), first_cell)


def _describe(ctx: PrepareContext, x: Meta, out: Meta) -> Pooling:
    attrs = ctx.attrs
    is_last = attrs["data_format"].endswith("C")
    first, rank = 1 if is_last else 2, len(x.shape) - 2
    axes = [_axis(attrs, i, x.shape[first + i], out.shape[first + i]) for i in range(rank)]
    depth, height, width = [Axis(1, 1, 1)] * (3 - rank) + axes
    reach = max(
        axis.size + axis.before + axis.after + axis.kernel * axis.dilation + axis.stride
        for axis in (depth, height, width)
    )
    channels = x.shape[-1] if is_last else 1
    if reach >= LIMIT or channels >= NARROW:
        ctx.refuse(f"padded images must be smaller than {LIMIT}, got {reach}")
    divisor = attrs.get("divisor", 0)
    if divisor >= LIMIT:
        ctx.refuse(f"the divisor must be smaller than {LIMIT}, got {divisor}")
    return Pooling(depth, height, width, count_of(out), count_of(x), channels, divisor)


def _axis(attrs: dict[str, Any], i: int, size: int, n_windows: int) -> Axis:
    if "output_size" in attrs:
        return Axis(size, n_windows)
    kernel: Sequence[int] = attrs["kernel"]
    strides = attrs["strides"] or kernel
    before, after = attrs["paddings"][2 * i : 2 * i + 2]
    counts_padding = attrs.get("count_include_pad", False)
    dilation = attrs["dilations"][i]
    return Axis(size, n_windows, kernel[i], strides[i], before, after, counts_padding, dilation)


def _launch(
    plan: LaunchPlan,
    name: str,
    meta: Meta,
    pooling: Pooling,
    pointers: Sequence[Pointer | None],
    behind: Sequence[Argument] = (),
) -> None:
    """Add the launch of a kernel, or of its variant for small windows if that is applicable.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    name : str
        The kernel in pooling.cu.
    meta : Meta
        The meta of the images.
    pooling : Pooling
        The windows.
    pointers, behind : sequence
        The arguments before and after the image layout.
    """
    of_pixels = name.endswith("_grad")
    strips = _strips(pooling, meta, of_pixels)
    if strips is not None:
        strips.launch(plan, name, meta, [*pointers, strips.struct(), *behind])
        return
    lanes = _lanes(pooling) if name == "pool_average" else 1
    n_threads = pooling.n_pixels if of_pixels else pooling.n_outputs * lanes
    given: list[Argument] = [*pointers, pooling.struct(), *behind]
    if name == "pool_average":
        given.append(np.int32(lanes))
    source = own_source("pooling.cu")
    expression = f"{name}<{CTYPES[meta.dtype]}>"
    plan.launch(source, expression, blocks_for(n_threads, plan), THREADS, given)


def _lanes(pooling: Pooling) -> int:
    """Return the number of threads that sum one window."""
    # With channels last, threads of a warp read adjacent elements even if each sums its own window.
    is_large = pooling.depth.longest * pooling.height.longest * pooling.width.longest >= 2 * WARP
    return WARP if is_large and pooling.channels < WARP else 1


def _fill_in_max(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Find the greatest element of each window."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    pointers = [plan.output("out"), plan.optional_output("index"), plan.input("x")]
    _launch(plan, "pool_max", x, _describe(ctx, x, out), pointers)


def _fill_in_average(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the mean of each window."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    pointers = [plan.output("out"), plan.input("x")]
    _launch(plan, "pool_average", x, _describe(ctx, x, out), pointers)


def _gradient(
    fill_in: Callable[[PrepareContext, LaunchPlan, Meta, Pooling], None],
) -> Kernel:
    """Return the kernel of a gradient."""

    def fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
        if not ctx.outputs["x_grad"]:
            return
        meta = ctx.outputs["x_grad"][0]
        fill_in(ctx, plan, meta, _describe(ctx, meta, ctx.inputs["out_grad"][0]))

    fill_in_grad.__doc__ = fill_in.__doc__
    return Kernel(fill_in_grad)


def _fill_in_max_grad(ctx: PrepareContext, plan: LaunchPlan, meta: Meta, pooling: Pooling) -> None:
    """Sum the gradients of the windows whose maximum is this element."""
    count = pooling.depth.size * pooling.height.size * pooling.width.size
    text = plan.fault_text(f"{ctx.op_type}: index must be in [0, {count}), got {{value}}")
    pointers = [plan.output("x_grad"), plan.input("index"), plan.input("out_grad")]
    _launch(plan, "pool_max_grad", meta, pooling, pointers, [plan.fault(), text])


def _fill_in_average_grad(
    ctx: PrepareContext, plan: LaunchPlan, meta: Meta, pooling: Pooling
) -> None:
    """Sum the contributions of the windows that cover an element."""
    pointers = [plan.output("x_grad"), plan.input("out_grad")]
    _launch(plan, "pool_average_grad", meta, pooling, pointers)


MAX: Final = Kernel(_fill_in_max)
"""max_pool2d, max_pool3d and adaptive_max_pool2d."""

MAX_GRAD: Final = _gradient(_fill_in_max_grad)
"""The gradients of the operators of `MAX`."""

AVERAGE: Final = Kernel(_fill_in_average)
"""avg_pool2d, avg_pool3d and adaptive_avg_pool2d."""

AVERAGE_GRAD: Final = _gradient(_fill_in_average_grad)
"""The gradients of the operators of `AVERAGE`."""
