"""Convolution by our own kernels: products of matrices that are never written down.

An element of x outside of the image counts as 0 and is multiplied all the same: where the weight
is infinite, or not a number, so is what a window that reaches beyond the border gets. In the
gradient of x that holds for every pixel of a tile whose window is not there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.indexing import NARROW, divider
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, bytes_of
from opwright_cuda.products import PRODUCT_THREADS, TILE, TILE_SUMS
from opwright_cuda.source import own_source

NARROW_TILE: Final = 32
"""The short side of a flat tile."""

PART_WINDOWS: Final = 256
"""The fewest windows that one part of a gradient's sum has."""

PART_BLOCKS: Final = 512
"""So many blocks, where there are windows enough; not the GPU's number, so that the sums of all are
made in one order."""

PART_BYTES: Final = 2**26
"""The most memory for partial sums."""

LIMIT: Final = 2**30
"""Sizes of images and kernels, padded and spread out, below which positions are added safely."""

SUM_CHANNELS: Final = 32
"""Neighbouring channels whose sums one block makes where channels are last."""


class Images(NamedTuple):
    """The dimensions of images, whatever the order of their axes."""

    n: int
    channels: int
    height: int
    width: int
    strides: tuple[int, int, int, int]

    @classmethod
    def of(cls, meta: Meta, data_format: str) -> Images:
        """Return those of a tensor."""
        if data_format == "NHWC":
            n, height, width, channels = meta.shape
            strides = (height * width * channels, 1, width * channels, channels)
        else:
            n, channels, height, width = meta.shape
            strides = (channels * height * width, height * width, width, 1)
        return cls(n, channels, height, width, strides)

    @property
    def n_places(self) -> int:
        """Pixels, or windows, of all images."""
        return self.n * self.height * self.width


class Convolution(NamedTuple):
    """One convolution.

    Attributes
    ----------
    x, out : Images
        Input and output.
    filters, channels, kernel_h, kernel_w : int
        The weight: out_channels, in_channels of a group, size of the kernel.
    groups : int
        How many.
    is_channels_last : bool
        Whether data_format is NHWC.
    ctype : str
        Of all tensors, as C++ names it.
    struct : Struct
        ``Convolution`` of convolution.cu.
    """

    x: Images
    out: Images
    filters: int
    channels: int
    kernel_h: int
    kernel_w: int
    groups: int
    is_channels_last: bool
    ctype: str
    struct: Struct

    @property
    def n_taps(self) -> int:
        """Elements of a filter."""
        return self.channels * self.kernel_h * self.kernel_w


def _describe(ctx: PrepareContext, x: Meta, weight: Meta, out: Meta) -> Convolution:
    attrs = ctx.attrs
    images, result = Images.of(x, attrs["data_format"]), Images.of(out, attrs["data_format"])
    filters, channels, kernel_h, kernel_w = weight.shape
    groups, is_last = attrs["groups"], attrs["data_format"] == "NHWC"
    of_group = filters // groups
    _check_sizes(ctx, images, result, max(filters, channels) * kernel_h * kernel_w)
    struct = Struct(
        np.array([*images.strides, *result.strides], np.int64),
        np.array([result.n_places, images.n_places], np.int64),
        np.array([channels, of_group, kernel_h, kernel_w], np.int32),
        np.array([images.height, images.width, result.height, result.width], np.int32),
        np.array([*attrs["strides"], attrs["paddings"][0], attrs["paddings"][2]], np.int32),
        np.array([*attrs["dilations"], is_last], np.int32),
        *(_divider(n) for n in (result.height, result.width, images.height, images.width)),
        *_tap_dividers(channels, kernel_h, kernel_w, is_last),
        *_tap_dividers(of_group, kernel_h, kernel_w, is_last),
        *(_divider(n) for n in attrs["strides"]),
    )
    ctype = CTYPES[x.dtype]
    kernel = kernel_h, kernel_w
    return Convolution(images, result, filters, channels, *kernel, groups, is_last, ctype, struct)


def _check_sizes(ctx: PrepareContext, x: Images, out: Images, n_taps: int) -> None:
    """Refuse what the kernels' 32-bit numbers cannot count."""
    counted = max(x.n_places, out.n_places, n_taps)
    if counted >= NARROW:
        ctx.refuse(f"pixels, windows and taps are counted to {NARROW}, got {counted}")
    top, bottom, left, right = ctx.attrs["paddings"]
    reach = max(x.height + top + bottom, x.width + left + right, *ctx.attrs["strides"])
    if reach >= LIMIT:
        ctx.refuse(f"padded images must be smaller than {LIMIT}, got {reach}")


def _divider(divisor: int) -> Struct:
    return divider(max(divisor, 1))


def _tap_dividers(n: int, kernel_h: int, kernel_w: int, is_last: bool) -> tuple[Struct, Struct]:
    """The middle and the inner digit of taps: (n, h, w), or (h, w, n) where channels are last."""
    middle, inner = (kernel_w, n) if is_last else (kernel_h, kernel_w)
    return _divider(middle), _divider(inner)


class _Tiling(NamedTuple):
    """Tiles of a product: the rows of one, and how many there are."""

    rows: int
    n_tiles: int


def _tile(rows: int, columns: int) -> _Tiling:
    """Return square tiles, or flat ones where the product is narrow."""
    shape = TILE
    if columns <= NARROW_TILE:
        shape = TILE_SUMS // NARROW_TILE
    elif rows <= NARROW_TILE:
        shape = NARROW_TILE
    return _Tiling(shape, -(-rows // shape) * -(-columns // (TILE_SUMS // shape)))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Convolve."""
    (x,), (weight,), (out,) = ctx.inputs["x"], ctx.inputs["weight"], ctx.outputs["out"]
    conv = _describe(ctx, x, weight, out)
    tiling = _tile(conv.out.n_places, conv.filters // conv.groups)
    plan.launch(
        own_source("convolution.cu"),
        f"convolve<{conv.ctype}, {tiling.rows}>",
        (tiling.n_tiles, conv.groups),
        PRODUCT_THREADS,
        [
            plan.output("out"),
            plan.input("x"),
            plan.input("weight"),
            plan.optional_input("bias"),
            conv.struct,
        ],
    )


CONV2D: Final = Kernel(_fill_in)
"""conv2d."""


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients that are wanted."""
    slots = [slot for slot, metas in ctx.outputs.items() if metas]
    if not ctx.inputs["out_grad"]:
        for slot in slots:
            plan.fill(plan.output(slot), bytes_of(ctx.outputs[slot][0]))
        return
    (x,), (weight,), (out_grad,) = (ctx.inputs[slot] for slot in ("x", "weight", "out_grad"))
    conv = _describe(ctx, x, weight, out_grad)
    if "x_grad" in slots:
        _add_input_grad(plan, conv)
    if "weight_grad" in slots:
        _add_weight_grad(plan, conv)
    if "bias_grad" in slots:
        _add_bias_grad(plan, conv)


def _add_input_grad(plan: LaunchPlan, conv: Convolution) -> None:
    tiling = _tile(conv.x.n_places, conv.channels)
    grid = (tiling.n_tiles, conv.groups)
    arguments: list[Argument] = [
        plan.output("x_grad"),
        plan.input("weight"),
        plan.input("out_grad"),
        conv.struct,
    ]
    name = f"convolve_input_grad<{conv.ctype}, {tiling.rows}>"
    plan.launch(own_source("convolution.cu"), name, grid, PRODUCT_THREADS, arguments)


def _add_weight_grad(plan: LaunchPlan, conv: Convolution) -> None:
    n_elements = conv.filters * conv.n_taps
    tiling = _tile(conv.filters // conv.groups, conv.n_taps)
    sums = _Sums(plan, conv, "weight_grad", n_elements, tiling.n_tiles * conv.groups)
    plan.launch(
        own_source("convolution.cu"),
        f"convolve_weight_grad<{conv.ctype}, {tiling.rows}>",
        (tiling.n_tiles, conv.groups, sums.n_parts),
        PRODUCT_THREADS,
        [
            sums.partial,
            plan.input("x"),
            plan.input("out_grad"),
            np.int64(sums.part),
            conv.struct,
        ],
    )
    sums.finish()


def _add_bias_grad(plan: LaunchPlan, conv: Convolution) -> None:
    width = SUM_CHANNELS if conv.is_channels_last else 1
    blocks = -(-conv.filters // width)
    sums = _Sums(plan, conv, "bias_grad", conv.filters, blocks)
    plan.launch(
        own_source("convolution.cu"),
        f"sum_windows<{conv.ctype}>",
        (blocks, sums.n_parts),
        THREADS,
        [
            sums.partial,
            plan.input("out_grad"),
            np.int64(conv.filters),
            np.int32(width),
            np.int64(sums.part),
            conv.struct,
        ],
    )
    sums.finish()


class _Sums:
    """Sums over all windows in two passes: first those of parts, then those of the parts.

    Attributes
    ----------
    n_parts, part : int
        Their number, and the windows of each.
    partial : Pointer
        Where their sums go, [n_parts, n]; the gradient itself where one part is all.
    """

    def __init__(self, plan: LaunchPlan, conv: Convolution, slot: str, n: int, blocks: int) -> None:
        item = 8 if conv.ctype == "double" else 4
        most = max(min(PART_BLOCKS // max(blocks, 1), PART_BYTES // max(n * item, 1)), 1)
        n_windows = conv.out.n_places
        self.part = max(-(-n_windows // most), PART_WINDOWS)
        self.n_parts = max(-(-n_windows // self.part), 1)
        self._plan, self._n, self._ctype = plan, n, conv.ctype
        self._out = plan.output(slot)
        self._is_whole = self.n_parts == 1 and conv.ctype in {"float", "double"}
        self.partial: Pointer = (
            self._out if self._is_whole else plan.workspace(self.n_parts * n * item)
        )

    def finish(self) -> None:
        """Add the second pass."""
        if self._is_whole:
            return
        blocks = blocks_for(self._n, self._plan)
        arguments: list[Argument] = [
            self._out,
            self.partial,
            np.int64(self._n),
            np.int64(self.n_parts),
        ]
        name = f"sum_parts<{self._ctype}>"
        self._plan.launch(own_source("convolution.cu"), name, blocks, THREADS, arguments)


CONV2D_GRAD: Final = Kernel(_fill_in_grad)
"""conv2d_grad."""
