"""Matrix products of groups of rows, whose sizes are known only on the GPU."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, count_of
from opwright_cuda.products import PRODUCT_THREADS, TILE
from opwright_cuda.source import own_source


def _launch(
    ctx: PrepareContext, plan: LaunchPlan, tiles: int, other: str, numbers: list[int]
) -> None:
    """Add the kernel of grouped.cu with this number of blocks; `numbers` follow the pointers."""
    (x,), (offsets,) = ctx.inputs["x"], ctx.inputs["offsets"]
    limits = f"offsets must ascend in [0, {x.shape[0]}]"
    text = f"{ctx.op_type}: {limits}, got {{value}}; pass the row at which each group ends"
    pointers = [plan.output("out"), *(plan.input(slot) for slot in ("x", other, "offsets"))]
    arguments: list[Argument] = [*pointers, *map(np.int64, numbers)]
    arguments += [plan.fault(), plan.fault_text(text)]
    expression = f"{ctx.op_type}<{CTYPES[x.dtype]}, {CTYPES[offsets.dtype]}>"
    plan.launch(own_source("grouped.cu"), expression, tiles, PRODUCT_THREADS, arguments)


def _fill_in_matmul(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Multiply the rows of each group by a matrix."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    if count_of(out) == 0:
        return
    (n, k), m, groups = x.shape, out.shape[1], ctx.inputs["offsets"][0].shape[0]
    tiles = (n // TILE + groups + 1) * -(-m // TILE)
    strides = (1, k) if ctx.attrs["transpose_weight"] else (m, 1)
    _launch(ctx, plan, tiles, "weight", [groups, n, k, m, *strides])


def _fill_in_outer(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum the outer products of the rows of each group."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    if count_of(out) == 0:
        return
    groups, k, m = out.shape
    tiles = groups * -(-k // TILE) * -(-m // TILE)
    _launch(ctx, plan, tiles, "y", [x.shape[0], k, m])


GROUPED_MATMUL: Final = Kernel(_fill_in_matmul)
GROUPED_OUTER: Final = Kernel(_fill_in_outer)
