"""Pooling over windows of images; gradients gather from the windows that cover a pixel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, count_of
from opwright_cuda.launch.indexing import NARROW, divider
from opwright_cuda.source import own_source

LIMIT: Final = 2**30
"""Sizes of padded images below which positions fit 32 bits."""

WARP: Final = 32
"""Threads that add up one large window together."""


class Axis(NamedTuple):
    """One spatial axis: its size, its windows, and what they are; kernel 0 for bins."""

    size: int
    n_windows: int
    kernel: int = 0
    stride: int = 1
    before: int = 0
    after: int = 0
    counts_padding: bool = False

    @property
    def longest(self) -> int:
        """The most elements that a window covers."""
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
        The spatial axes, those that images lack of length 1.
    n_outputs, n_pixels : int
        Elements of out and of x.
    channels : int
        Elements between two neighbours in a row.
    """

    depth: Axis
    height: Axis
    width: Axis
    n_outputs: int
    n_pixels: int
    channels: int

    def struct(self) -> Struct:
        """Return ``Pooling`` of pooling.cu."""
        return Struct(
            self.depth.struct(),
            self.height.struct(),
            self.width.struct(),
            np.array([self.n_outputs, self.n_pixels], np.int64),
            np.int32(self.channels),
            divider(max(self.channels, 1)),
        )


def _describe(ctx: PrepareContext, x: Meta, out: Meta) -> Pooling:
    attrs = ctx.attrs
    is_last = attrs["data_format"].endswith("C")
    first, rank = 1 if is_last else 2, len(x.shape) - 2
    axes = [_axis(attrs, i, x.shape[first + i], out.shape[first + i]) for i in range(rank)]
    depth, height, width = [Axis(1, 1, 1)] * (3 - rank) + axes
    reach = max(
        axis.size + axis.before + axis.after + axis.kernel + axis.stride
        for axis in (depth, height, width)
    )
    channels = x.shape[-1] if is_last else 1
    if reach >= LIMIT or channels >= NARROW:
        ctx.refuse(f"padded images must be smaller than {LIMIT}, got {reach}")
    return Pooling(depth, height, width, count_of(out), count_of(x), channels)


def _axis(attrs: dict[str, Any], i: int, size: int, n_windows: int) -> Axis:
    if "output_size" in attrs:
        return Axis(size, n_windows)
    kernel: Sequence[int] = attrs["kernel"]
    strides = attrs["strides"] or kernel
    before, after = attrs["paddings"][2 * i : 2 * i + 2]
    counts_padding = attrs.get("count_include_pad", False)
    return Axis(size, n_windows, kernel[i], strides[i], before, after, counts_padding)


def _launch(
    plan: LaunchPlan, name: str, meta: Meta, n_threads: int, arguments: Sequence[Argument]
) -> None:
    source = own_source("pooling.cu")
    expression = f"{name}<{CTYPES[meta.dtype]}>"
    plan.launch(source, expression, blocks_for(n_threads, plan), THREADS, arguments)


def _fill_in_max(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Find the greatest element of each window."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    pooling = _describe(ctx, x, out)
    index = plan.optional_output("index")
    arguments = [plan.output("out"), index, plan.input("x"), pooling.struct()]
    _launch(plan, "pool_max", x, pooling.n_outputs, arguments)


def _fill_in_average(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the mean of each window."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    pooling = _describe(ctx, x, out)
    # Where channels are last, the threads of a warp read neighbours anyway.
    is_large = pooling.depth.longest * pooling.height.longest * pooling.width.longest >= 2 * WARP
    lanes = WARP if is_large and pooling.channels < WARP else 1
    arguments: list[Argument] = [
        plan.output("out"),
        plan.input("x"),
        np.int32(lanes),
        pooling.struct(),
    ]
    _launch(plan, "pool_average", x, pooling.n_outputs * lanes, arguments)


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
    """Add up the gradients of the windows whose greatest element this is."""
    count = pooling.depth.size * pooling.height.size * pooling.width.size
    text = plan.fault_text(f"{ctx.op_type}: index must be in [0, {count}), got {{value}}")
    pointers = [plan.output("x_grad"), plan.input("index"), plan.input("out_grad")]
    arguments: list[Argument] = [*pointers, pooling.struct(), plan.fault(), text]
    _launch(plan, "pool_max_grad", meta, pooling.n_pixels, arguments)


def _fill_in_average_grad(
    ctx: PrepareContext, plan: LaunchPlan, meta: Meta, pooling: Pooling
) -> None:
    """Add up the shares in the gradients of the windows that cover an element."""
    pointers = [plan.output("x_grad"), plan.input("out_grad")]
    _launch(plan, "pool_average_grad", meta, pooling.n_pixels, [*pointers, pooling.struct()])


MAX: Final = Kernel(_fill_in_max)
"""max_pool2d, max_pool3d and adaptive_max_pool2d."""

MAX_GRAD: Final = _gradient(_fill_in_max_grad)
"""Their gradients."""

AVERAGE: Final = Kernel(_fill_in_average)
"""avg_pool2d, avg_pool3d and adaptive_avg_pool2d."""

AVERAGE_GRAD: Final = _gradient(_fill_in_average_grad)
"""Their gradients."""
