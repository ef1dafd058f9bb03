"""Convolutions as explicit im2col matrix products.

For strides above 1, or images nearly as small as the kernel, cuDNN's single-precision engines reach
a tenth to a third of cuBLASLt's speed (decision 0109).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext, Refuse
from opwright.op import Meta
from opwright_cuda.cudnn import MAX_WORKSPACE
from opwright_cuda.dtypes import ITEM_BYTES
from opwright_cuda.kernels.convolution import Convolution, describe
from opwright_cuda.kernels.elementwise import THREADS, Operand
from opwright_cuda.kernels.lines import WARP, quotient_up
from opwright_cuda.kernels.reduction import launch_reduction, total_of
from opwright_cuda.kernels.transpose import launch_transpose
from opwright_cuda.launch import Argument, LaunchPlan, Pointer
from opwright_cuda.launch.indexing import NARROW, Layout
from opwright_cuda.products import (
    TILE,
    Operands,
    Product,
    add_product,
    cut_product,
    equal_parts,
)
from opwright_cuda.source import own_source

DTYPE: Final = "float32"

LEAST_WORK: Final = 2**27
"""Minimum number of multiplications; for smaller products, launches dominate."""

SMALL_IMAGE: Final = 64
"""Maximum number of windows per image for outputs that are computed here."""

SMALL_IMAGE_GRAD: Final = 256
"""Maximum number of windows per image for gradients that are computed here."""

LEAST_PART: Final = 256
"""Minimum number of windows in each partial sum of a weight gradient."""

TILES: Final = 4
"""Target number of tiles of the weight gradient per multiprocessor."""

FOLD_SIDE, FOLD_ROWS = 32, 8
"""``kFoldSide`` and ``kFoldRows`` of unfold.cu; most threads are idle for fewer channels."""

WINDOWS: Final = 8
"""``kWindows`` of unfold.cu."""

_ITEM: Final = ITEM_BYTES[DTYPE]


class UnfoldedConvolution:
    """The parts of a convolution that are computed from one im2col matrix.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    conv : Convolution
        The convolution to compute.
    is_strided : bool
        Whether a stride is above 1.

    Attributes
    ----------
    gives_out, gives_x_grad, gives_weight_grad : bool
        Results that are faster here than by cuDNN.
    """

    def __init__(self, plan: LaunchPlan, conv: Convolution, is_strided: bool) -> None:
        self._plan, self._conv = plan, conv
        self._n_windows = conv.out.n_places
        self._columns: Pointer | None = None
        self._gradients: Pointer | None = None
        self.gives_out = _has_small_images(conv, SMALL_IMAGE)
        is_slow = is_strided or _has_small_images(conv, SMALL_IMAGE_GRAD)
        self.gives_x_grad = is_slow and conv.channels >= FOLD_SIDE
        self.gives_weight_grad = is_strided

    def add_out(self) -> None:
        """Add the convolution, including the bias if it exists."""
        plan, conv = self._plan, self._conv
        self._unfold()
        rows = plan.workspace(self._n_windows * conv.filters * _ITEM)
        product = self._product(conv.filters, conv.n_taps, transpose_y=True)
        weight, bias = plan.input("weight"), plan.optional_input("bias")
        add_product(plan, product, Operands(self._matrix, weight, rows, bias))
        shape = conv.out.n, conv.out.n_places // conv.out.n, conv.filters
        launch_transpose(plan, plan.output("out"), rows, shape, (0, 2, 1), _ITEM)

    def add_x_grad(self) -> None:
        """Add the gradient of x."""
        plan, conv = self._plan, self._conv
        product = self._product(conv.n_taps, conv.filters)
        operands = Operands(self._rows_of_gradients(), plan.input("weight"), self._matrix)
        add_product(plan, product, operands)
        grid = quotient_up(conv.x.n_places, FOLD_SIDE), quotient_up(conv.channels, FOLD_SIDE)
        given: list[Argument] = [plan.output("x_grad"), self._matrix]
        given += [np.int32(conv.n_taps), conv.struct]
        expression = f"fold<{conv.ctype}>"
        plan.launch(own_source("unfold.cu"), expression, grid, (FOLD_SIDE, FOLD_ROWS), given)

    def add_weight_grad(self) -> None:
        """Add the weight gradient, as a sum of parts that are computed in parallel."""
        plan, conv = self._plan, self._conv
        gradients = self._rows_of_gradients()
        self._unfold()
        n = conv.filters * conv.n_taps
        shape = conv.filters, conv.n_taps, self._n_windows
        stacks = Layout((), ((), (), ()))
        product = Product(*shape, True, False, stacks, DTYPE, DTYPE)
        parts, out = self._count_parts(), plan.output("weight_grad")
        if parts == 1:
            add_product(plan, product, Operands(gradients, self._matrix, out))
            return
        sums = plan.workspace(parts * n * _ITEM)
        add_product(plan, cut_product(product, parts), Operands(gradients, self._matrix, sums))
        made, read = Operand(out, (n,), conv.ctype), Operand(sums, (parts, n), conv.ctype)
        launch_reduction(plan, total_of(DTYPE), read, [0], made)

    @property
    def _matrix(self) -> Pointer:
        """The memory of the im2col matrix, reused by the gradients."""
        if self._columns is None:
            n_bytes = self._n_windows * self._conv.n_taps * _ITEM
            self._columns = self._plan.workspace(n_bytes)
        return self._columns

    def _product(self, n: int, k: int, transpose_y: bool = False) -> Product:
        """Return the product of the im2col matrix and the weight."""
        stacks = Layout((), ((), (), ()))
        return Product(self._n_windows, n, k, False, transpose_y, stacks, DTYPE, DTYPE)

    def _unfold(self) -> None:
        plan, conv = self._plan, self._conv
        given: list[Argument] = [self._matrix, plan.input("x"), np.int32(conv.n_taps), conv.struct]
        threads = min(quotient_up(conv.n_taps, WARP) * WARP, THREADS)
        blocks = quotient_up(self._n_windows, WINDOWS)
        plan.launch(own_source("unfold.cu"), f"unfold<{conv.ctype}>", blocks, threads, given)

    def _rows_of_gradients(self) -> Pointer:
        """Return the output gradient as [windows, filters]."""
        if self._gradients is None:
            plan, conv = self._plan, self._conv
            self._gradients = plan.workspace(self._n_windows * conv.filters * _ITEM)
            shape = conv.out.n, conv.filters, self._n_windows // conv.out.n
            given = plan.input("out_grad")
            launch_transpose(plan, self._gradients, given, shape, (0, 2, 1), _ITEM)
        return self._gradients

    def _count_parts(self) -> int:
        conv = self._conv
        tiles = quotient_up(conv.filters, TILE) * quotient_up(conv.n_taps, TILE)
        enough = TILES * self._plan.gpu.multiprocessors // tiles
        return equal_parts(self._n_windows, min(enough, self._n_windows // LEAST_PART))


def find_unfolded(
    ctx: PrepareContext, plan: LaunchPlan, x: Meta, weight: Meta, out: Meta
) -> UnfoldedConvolution | None:
    """Return the parts that are computed here, or None if cuDNN computes all parts.

    Parameters
    ----------
    ctx : PrepareContext
        The context of conv2d or conv2d_grad.
    plan : LaunchPlan
        The plan to extend.
    x, weight, out : Meta
        The metas of the convolution.
    """
    attrs = ctx.attrs
    is_plain = attrs["data_format"] == "NCHW" and attrs["groups"] == 1
    if x.dtype != DTYPE or plan.allows_tf32 or not is_plain or set(attrs["dilations"]) != {1}:
        return None
    try:
        conv = describe(ctx, x, weight, out)
    except Refuse:
        return None
    n_windows, n_taps = conv.out.n_places, conv.n_taps
    work, n_bytes = n_windows * n_taps * conv.filters, n_windows * n_taps * _ITEM
    is_counted = n_windows * max(n_taps, conv.filters) < NARROW
    if work < LEAST_WORK or n_bytes > MAX_WORKSPACE or not is_counted:
        return None
    return UnfoldedConvolution(plan, conv, max(attrs["strides"]) > 1)


def _has_small_images(conv: Convolution, most: int) -> bool:
    """Return whether images have at most `most` windows and the kernel has several elements."""
    return conv.kernel_size > 1 and conv.out.n_places <= most * conv.out.n
