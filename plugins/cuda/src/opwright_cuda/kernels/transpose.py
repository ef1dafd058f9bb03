"""Permutation of axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import BITS, ITEM_BYTES
from opwright_cuda.kernels.elementwise import BLOCKS_PER_MULTIPROCESSOR
from opwright_cuda.kernels.movement import index_type, launch_move
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer
from opwright_cuda.launch.indexing import Layout, compact_strides, layout_struct, merge
from opwright_cuda.source import own_source

LANES, ROWS = 32, 8
"""Threads of a block; ``kLanes`` and ``kRows`` of transpose.cu."""

LEAST_SIDE: Final = 8
"""Minimum length of an axis; shorter axes would leave most of a tile empty."""


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Permute the axes."""
    x = ctx.inputs["x"][0]
    rank = len(x.shape)
    axes = [axis % rank for axis in ctx.attrs["axes"]] or list(reversed(range(rank)))
    to, given = plan.output("out"), plan.input("x")
    launch_transpose(plan, to, given, x.shape, axes, ITEM_BYTES[x.dtype])


def launch_transpose(
    plan: LaunchPlan,
    out: Pointer,
    x: Pointer,
    shape: Sequence[int],
    axes: Sequence[int],
    item_bytes: int,
) -> None:
    """Add a copy by tiles if the innermost axis changes, otherwise by contiguous runs.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    out, x : Pointer
        Output and input, both compact.
    shape : sequence of int
        The shape of x.
    axes : sequence of int
        The axes of x in their new order, counted from the front.
    item_bytes : int
        Bytes of an element.
    """
    made, steps = [shape[axis] for axis in axes], compact_strides(shape)
    if prod(shape) == 0:
        return
    layout = merge(made, [compact_strides(made), [steps[axis] for axis in axes]])
    if len(layout.dims) <= 1:
        plan.copy(out, x, prod(shape) * item_bytes)
        return
    across = layout.strides[1].index(1)
    if min(layout.dims[across], layout.dims[-1]) < LEAST_SIDE or across == len(layout.dims) - 1:
        out_strides, x_strides = layout.strides
        launch_move(plan, out, x, layout.dims, out_strides, x_strides, item_bytes)
        return
    _launch_tiles(plan, out, x, layout, across, item_bytes)


def _launch_tiles(
    plan: LaunchPlan, out: Pointer, x: Pointer, layout: Layout, across: int, item_bytes: int
) -> None:
    """Add the swap of the last axis and the axis `across`, which is innermost in the input."""
    down = len(layout.dims) - 1
    tile = 32 if item_bytes >= 4 else 64
    dims = list(layout.dims)
    strides = [list(s) for s in layout.strides]
    firsts = [[0] * len(dims), [0] * len(dims)]
    for axis, first in ((across, firsts[0]), (down, firsts[1])):
        dims[axis] = -(-dims[axis] // tile)
        first[axis] = tile
        for s in strides:
            s[axis] *= tile
    n_tiles = int(np.prod(dims, dtype=np.int64))
    tiles = Layout(tuple(dims), tuple(tuple(s) for s in (*strides, *firsts)))
    sides = [layout.dims[across], layout.dims[down], layout.strides[0][across]]
    arguments: list[Argument] = [out, x, np.int64(n_tiles)]
    arguments += [np.int64(n) for n in (*sides, layout.strides[1][down])]
    arguments.append(layout_struct(tiles))
    most = plan.gpu.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    expression = f"transpose_tiles<{BITS[item_bytes]}, {index_type(n_tiles)}, {tile}>"
    source = own_source("transpose.cu")
    plan.launch(source, expression, min(n_tiles, most), (LANES, ROWS), arguments)


TRANSPOSE: Final = Kernel(_fill_in)
