"""Convolution by our own kernels, as implicit GEMM.

Padding is multiplied as zeros. If a weight is infinite or NaN, windows that reach the padding
therefore give NaN. In the gradient of x, such a weight gives NaN for every pixel of a tile in which
a window is missing.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Kernel, LaunchPlan, Pointer, Struct, count_of
from opwright_cuda.launch.indexing import NARROW, divider
from opwright_cuda.products import PRODUCT_THREADS, TILE, TILE_SUMS
from opwright_cuda.source import own_source

NARROW_TILE: Final = 32
"""The short side of a flat tile."""

PART_STEPS: Final = 256
"""Minimum number of steps in one part of a sum."""

PART_BLOCKS: Final = 512
"""Target blocks for the sums of a gradient, fixed so that sums do not depend on the GPU."""

TILE_BLOCKS: Final = 256
"""Target blocks for outputs, also fixed, but fewer because their parts cost more to write."""

PART_BYTES: Final = 2**26
"""Maximum memory for partial sums."""

LIMIT: Final = 2**30
"""Sizes of padded images and dilated kernels below which sums of positions cannot overflow."""

SUM_CHANNELS: Final = 32
"""Adjacent channels summed by one block for channels-last images."""


class Images(NamedTuple):
    """The dimensions of images in any axis order; missing axes have length 1."""

    n: int
    channels: int
    depth: int
    height: int
    width: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, meta: Meta, data_format: str) -> Images:
        """Return the sizes and strides of a tensor."""
        is_last = data_format.endswith("C")
        n, *rest = meta.shape
        channels, sizes = (rest[-1], rest[:-1]) if is_last else (rest[0], rest[1:])
        depth, height, width = [1] * (3 - len(sizes)) + sizes
        pixel = channels if is_last else 1
        channel = 1 if is_last else depth * height * width
        row, image = width * pixel, channels * depth * height * width
        strides = image, channel, height * row, row, pixel
        return cls(n, channels, depth, height, width, strides)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Depth, height and width."""
        return self.depth, self.height, self.width

    @property
    def n_places(self) -> int:
        """Pixels, or windows, of all images."""
        return self.n * self.depth * self.height * self.width


class Convolution(NamedTuple):
    """One convolution.

    Attributes
    ----------
    x, out : Images
        Input and output.
    filters, channels : int
        The out_channels of the weight, and its in_channels per group.
    kernel_size : int
        Elements of the kernel.
    groups : int
        Number of groups.
    is_channels_last : bool
        Whether the channels are last.
    is_deep : bool
        Whether images have a depth.
    ctype : str
        The C++ type of all tensors.
    struct : Struct
        ``Convolution`` of convolution.cu.
    """

    x: Images
    out: Images
    filters: int
    channels: int
    kernel_size: int
    groups: int
    is_channels_last: bool
    is_deep: bool
    ctype: str
    struct: Struct

    @property
    def n_taps(self) -> int:
        """Elements of a filter."""
        return self.channels * self.kernel_size

    @property
    def deep(self) -> str:
        """C++ literal: whether images have a depth axis."""
        return "true" if self.is_deep else "false"


def describe(ctx: PrepareContext, x: Meta, weight: Meta, out: Meta) -> Convolution:
    """Return the convolution of a context's attributes; refuse sizes beyond 32 bits."""
    attrs = ctx.attrs
    images, result = Images.of(x, attrs["data_format"]), Images.of(out, attrs["data_format"])
    filters, channels, *sizes = weight.shape
    lacking = [1] * (3 - len(sizes))
    kernel = [*lacking, *sizes]
    groups, is_last = attrs["groups"], attrs["data_format"].endswith("C")
    of_group = filters // groups
    _check_sizes(ctx, images, result, max(filters, channels) * prod(kernel))
    strides, dilations = ([*lacking, *attrs[name]] for name in ("strides", "dilations"))
    befores = [*[0] * len(lacking), *attrs["paddings"][::2]]
    struct = Struct(
        np.array([*images.strides, *result.strides], np.int64),
        np.array([result.n_places, images.n_places], np.int64),
        np.array([channels, of_group, *kernel, *images.sizes, *result.sizes], np.int32),
        np.array([*strides, *befores, *dilations, is_last], np.int32),
        *(_divider(n) for n in (*result.sizes, *images.sizes)),
        *_tap_dividers(channels, kernel, is_last),
        *_tap_dividers(of_group, kernel, is_last),
        *(_divider(n) for n in strides),
    )
    ctype, is_deep = CTYPES[x.dtype], len(sizes) == 3
    counts = filters, channels, prod(kernel), groups
    return Convolution(images, result, *counts, is_last, is_deep, ctype, struct)


def _check_sizes(ctx: PrepareContext, x: Images, out: Images, n_taps: int) -> None:
    """Refuse sizes beyond the kernels' 32-bit indices."""
    counted = max(x.n_places, out.n_places, n_taps)
    if counted >= NARROW:
        ctx.refuse(f"there must be fewer than {NARROW} pixels, windows and taps, got {counted}")
    paddings = ctx.attrs["paddings"]
    sizes = x.sizes[3 - len(paddings) // 2 :]
    padded = (n + sum(paddings[2 * i : 2 * i + 2]) for i, n in enumerate(sizes))
    reach = max(*padded, *ctx.attrs["strides"])
    if reach >= LIMIT:
        ctx.refuse(f"padded images must be smaller than {LIMIT}, got {reach}")


def _divider(divisor: int) -> Struct:
    return divider(max(divisor, 1))


def _tap_dividers(n: int, kernel: list[int], is_last: bool) -> list[Struct]:
    """Dividers of all tap digits but the first: (n, d, h, w), or (d, h, w, n) for channels last."""
    digits = [*kernel[1:], n] if is_last else kernel
    return [_divider(digit) for digit in digits]


class _Tiling(NamedTuple):
    """Tiles of a product: rows per tile, and number of tiles."""

    rows: int
    n_tiles: int


def _tile(rows: int, columns: int) -> _Tiling:
    """Return square tiles, or flat tiles for narrow products."""
    shape = TILE
    if columns <= NARROW_TILE:
        shape = TILE_SUMS // NARROW_TILE
    elif rows <= NARROW_TILE:
        shape = NARROW_TILE
    return _Tiling(shape, -(-rows // shape) * -(-columns // (TILE_SUMS // shape)))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the convolution."""
    (x,), (weight,), (out,) = ctx.inputs["x"], ctx.inputs["weight"], ctx.outputs["out"]
    conv = describe(ctx, x, weight, out)
    tiling = _tile(conv.out.n_places, conv.filters // conv.groups)
    blocks = tiling.n_tiles * conv.groups
    parts = _Parts(plan, conv, plan.output("out"), count_of(out), conv.n_taps, blocks, TILE_BLOCKS)
    bias = plan.optional_input("bias")
    plan.launch(
        own_source("convolution.cu"),
        f"convolve<{conv.ctype}, {tiling.rows}, {conv.deep}>",
        (tiling.n_tiles, conv.groups, parts.n_parts),
        PRODUCT_THREADS,
        [parts.target, plan.input("x"), plan.input("weight"), bias, conv.struct],
    )
    parts.finish(conv.out, bias)


CONVOLUTION: Final = Kernel(_fill_in)
"""conv2d and conv3d."""


def _fill_in_transposed(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Add each element of x, times the filters, to its window."""
    (x,), (weight,), (out,) = ctx.inputs["x"], ctx.inputs["weight"], ctx.outputs["out"]
    conv = describe(ctx, out, weight, x)
    tensors = plan.output("out"), plan.input("x"), plan.optional_input("bias")
    _spread(plan, conv, *tensors)


CONV_TRANSPOSE: Final = Kernel(_fill_in_transposed)
"""conv2d_transpose and conv3d_transpose."""


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the requested gradients."""
    slots = [slot for slot, metas in ctx.outputs.items() if metas]
    if not slots:
        return
    (x,), (weight,), (out_grad,) = (ctx.inputs[slot] for slot in ("x", "weight", "out_grad"))
    conv = describe(ctx, x, weight, out_grad)
    if "x_grad" in slots:
        _spread(plan, conv, plan.output("x_grad"), plan.input("out_grad"), None)
    if "weight_grad" in slots:
        _add_weight_grad(plan, conv)
    if "bias_grad" in slots:
        add_bias_grad(plan, conv)


def _spread(
    plan: LaunchPlan, conv: Convolution, result: Pointer, out_grad: Pointer, bias: Pointer | None
) -> None:
    """Add the input gradient of a convolution, plus a bias."""
    tiling = _tile(conv.x.n_places, conv.channels)
    n, blocks = conv.x.n_places * conv.x.channels, tiling.n_tiles * conv.groups
    n_steps = conv.filters // conv.groups * conv.kernel_size
    parts = _Parts(plan, conv, result, n, n_steps, blocks, TILE_BLOCKS)
    plan.launch(
        own_source("convolution.cu"),
        f"convolve_input_grad<{conv.ctype}, {tiling.rows}, {conv.deep}>",
        (tiling.n_tiles, conv.groups, parts.n_parts),
        PRODUCT_THREADS,
        [parts.target, plan.input("weight"), out_grad, bias, conv.struct],
    )
    parts.finish(conv.x, bias)


def _add_weight_grad(plan: LaunchPlan, conv: Convolution) -> None:
    tiling = _tile(conv.filters // conv.groups, conv.n_taps)
    n, blocks = conv.filters * conv.n_taps, tiling.n_tiles * conv.groups
    out, n_steps = plan.output("weight_grad"), conv.out.n_places
    parts = _Parts(plan, conv, out, n, n_steps, blocks, PART_BLOCKS)
    plan.launch(
        own_source("convolution.cu"),
        f"convolve_weight_grad<{conv.ctype}, {tiling.rows}, {conv.deep}>",
        (tiling.n_tiles, conv.groups, parts.n_parts),
        PRODUCT_THREADS,
        [parts.target, plan.input("x"), plan.input("out_grad"), conv.struct],
    )
    parts.finish()


def add_bias_grad(plan: LaunchPlan, conv: Convolution) -> None:
    """Add the sums of the output gradients, channel by channel."""
    width = SUM_CHANNELS if conv.is_channels_last else 1
    blocks = -(-conv.filters // width)
    out, n_steps = plan.output("bias_grad"), conv.out.n_places
    parts = _Parts(plan, conv, out, conv.filters, n_steps, blocks, PART_BLOCKS)
    plan.launch(
        own_source("convolution.cu"),
        f"sum_windows<{conv.ctype}, {conv.deep}>",
        (blocks, 1, parts.n_parts),
        THREADS,
        [parts.target, plan.input("out_grad"), np.int32(width), conv.struct],
    )
    parts.finish()


class _Parts:
    """Sums that are computed in one pass, or in parts that a second pass adds together.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    conv : Convolution
        The convolution.
    out : Pointer
        The destination of the sums.
    n, n_steps : int
        Number of sums, and of steps in each.
    blocks : int
        Number of blocks without splitting.
    enough : int
        Number of blocks that keeps the GPU busy.

    Attributes
    ----------
    n_parts : int
        Number of parts.
    target : Struct
        ``Target`` of convolution.cu.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        conv: Convolution,
        out: Pointer,
        n: int,
        n_steps: int,
        blocks: int,
        enough: int,
    ) -> None:
        item = 8 if conv.ctype == "double" else 4
        most = max(min(enough // max(blocks, 1), PART_BYTES // max(n * item, 1)), 1)
        part = max(-(-n_steps // most), PART_STEPS)
        self.n_parts = max(-(-n_steps // part), 1)
        sums = plan.workspace(self.n_parts * n * item) if self.n_parts > 1 else None
        self.target = Struct(out, sums, np.int64(n), np.int64(part))
        self._plan, self._conv, self._n = plan, conv, n

    def finish(self, images: Images | None = None, bias: Pointer | None = None) -> None:
        """If there are several parts, add the second pass, which includes the bias."""
        if self.n_parts == 1:
            return
        conv = self._conv
        made = images or conv.out
        channels = np.int64(made.channels), np.int64(made.strides[1])
        self._plan.launch(
            own_source("convolution.cu"),
            f"sum_parts<{conv.ctype}>",
            blocks_for(self._n, self._plan),
            THREADS,
            [self.target, np.int64(self.n_parts), bias, *channels],
        )


CONVOLUTION_GRAD: Final = Kernel(_fill_in_grad)
"""conv2d_grad and conv3d_grad."""
