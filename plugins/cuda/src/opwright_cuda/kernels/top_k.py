"""The best elements along one axis."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import BITS, CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lines import lines_along
from opwright_cuda.launch import (
    MAX_GRID,
    Argument,
    Kernel,
    LaunchPlan,
    Struct,
    bytes_of,
    count_of,
)
from opwright_cuda.launch.indexing import NARROW
from opwright_cuda.source import own_source

SORTED: Final = 2048
"""``kSorted`` of top_k.cu."""

BLOCKS_AT_ONCE: Final = 8
"""Number of blocks per multiprocessor, each with separate memory if needed."""

_WARP: Final = 32


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sort short lines; in long lines, select the best elements first."""
    x = ctx.inputs["x"][0]
    k, along = ctx.attrs["k"], lines_along(x.shape, ctx.attrs["axis"])
    n_lines, length, inner = along.n_lines, along.length, along.inner
    if length >= NARROW:
        ctx.refuse(f"an axis of {length} elements is longer than {NARROW - 1}")
    if count_of(ctx.outputs["out"][0]) == 0:
        return
    numbers = (np.int64(number) for number in (n_lines, length, inner, k))
    lines = Struct(*numbers, np.bool_(ctx.attrs["largest"]))
    # An item consists of a rank of 4 or 8 bytes and an index.
    item_bytes = 16 if ITEM_BYTES[x.dtype] == 8 else 8
    arguments: list[Argument] = [plan.input("x"), plan.output("out"), plan.output("indices"), lines]
    source, ctype = own_source("top_k.cu"), CTYPES[x.dtype]
    if length <= SORTED:
        n_items = _power_of_two(length)
        threads = min(THREADS, max(_WARP, n_items // 2))
        arguments.append(np.int64(n_items))
        grid = min(n_lines, MAX_GRID[0])
        expression = f"top_k_of_short<{ctype}>"
        plan.launch(source, expression, grid, threads, arguments, n_items * item_bytes)
        return
    n_items = _power_of_two(k)
    grid = min(n_lines, plan.gpu.multiprocessors * BLOCKS_AT_ONCE)
    shared_bytes = n_items * item_bytes if n_items <= SORTED else 0
    workspace = None if shared_bytes else plan.workspace(grid * n_items * item_bytes)
    arguments += [np.int64(n_items), workspace]
    expression = f"top_k_of_long<{ctype}>"
    plan.launch(source, expression, grid, THREADS, arguments, shared_bytes)


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


TOP_K: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Scatter the gradients to the selected elements; all other elements are 0."""
    if not ctx.outputs["x_grad"]:
        return
    x_grad = ctx.outputs["x_grad"][0]
    plan.fill(plan.output("x_grad"), bytes_of(x_grad))
    lines = lines_along(x_grad.shape, ctx.attrs["axis"])
    length, inner, n = lines.length, lines.inner, count_of(ctx.inputs["out_grad"][0])
    k = n // max(lines.n_lines, 1)
    pointers = [plan.output("x_grad"), plan.input("indices"), plan.input("out_grad")]
    text = plan.fault_text(f"{ctx.op_type}: indices must be in [0, {length}), got {{value}}")
    arguments: list[Argument] = [*pointers, *(np.int64(i) for i in (n, k, length, inner))]
    arguments += [plan.fault(), text]
    expression = f"top_k_grad<{BITS[ITEM_BYTES[x_grad.dtype]]}>"
    plan.launch(own_source("top_k.cu"), expression, blocks_for(n, plan), THREADS, arguments)


TOP_K_GRAD: Final = Kernel(_fill_in_grad)
