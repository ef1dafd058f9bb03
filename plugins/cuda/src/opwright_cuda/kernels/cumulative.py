"""Cumulative sums and products along one axis, and the gradient of the product."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, compute_type
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lines import lines_along
from opwright_cuda.launch import MAX_GRID, Argument, Kernel, LaunchPlan, count_of
from opwright_cuda.source import own_source


def _turns(ctx: PrepareContext) -> list[Argument]:
    return [np.int32(ctx.attrs["exclusive"]), np.int32(ctx.attrs["reverse"])]


def _fill_in_running(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Scan each line with a block, or adjacent lines with a thread each; integers use 64 bits."""
    x = ctx.inputs["x"][0]
    if count_of(x) == 0:
        return
    lines = lines_along(x.shape, ctx.attrs["axis"])
    is_float = "float" in x.dtype
    acc = compute_type(x.dtype) if is_float else "uint64_t"
    out = CTYPES[x.dtype] if is_float else "uint64_t"
    rule = "Adding" if ctx.op_type == "cumsum" else "Multiplying"
    types = f"<{rule}<{acc}>, {acc}, {CTYPES[x.dtype]}, {out}>"
    arguments: list[Argument] = [plan.output("out"), plan.input("x"), np.int64(lines.n_lines)]
    arguments.append(np.int64(lines.length))
    source = own_source("cumulative.cu")
    if lines.inner == 1:
        grid = min(lines.n_lines, MAX_GRID[0])
        plan.launch(source, f"scan_rows{types}", grid, THREADS, [*arguments, *_turns(ctx)])
        return
    arguments += [np.int64(lines.inner), *_turns(ctx)]
    grid = blocks_for(lines.n_lines, plan)
    plan.launch(source, f"scan_columns{types}", grid, THREADS, arguments)


RUNNING: Final = Kernel(_fill_in_running)


def _fill_in_cumprod_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Scan each line forward and backward."""
    if not ctx.outputs["x_grad"] or count_of(ctx.outputs["x_grad"][0]) == 0:
        return
    x = ctx.inputs["x"][0]
    lines = lines_along(x.shape, ctx.attrs["axis"])
    acc = compute_type(x.dtype)
    before = plan.workspace(count_of(x) * (8 if acc == "double" else 4))
    pointers = [plan.output("x_grad"), plan.input("x"), plan.input("out_grad"), before]
    numbers = [np.int64(n) for n in (lines.n_lines, lines.length, lines.inner)]
    arguments: list[Argument] = [*pointers, *numbers, *_turns(ctx)]
    expression = f"cumprod_grad<{acc}, {CTYPES[x.dtype]}>"
    grid = blocks_for(lines.n_lines, plan)
    plan.launch(own_source("cumulative.cu"), expression, grid, THREADS, arguments)


CUMPROD_GRAD: Final = Kernel(_fill_in_cumprod_grad)
