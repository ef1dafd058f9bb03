"""tile, which repeats a tensor along its axes, and its gradient, which sums over the repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import ITEM_BYTES
from opwright_cuda.kernels.elementwise import operand
from opwright_cuda.kernels.movement import launch_move
from opwright_cuda.kernels.reduction import launch_reduction, total_of
from opwright_cuda.launch import Kernel, LaunchPlan, bytes_of, count_of
from opwright_cuda.launch.indexing import compact_strides


def _pairs(shape: Sequence[int], repeats: Sequence[int]) -> list[tuple[int, int]]:
    """Return (repeats, length) of every axis, aligned at the last axis."""
    rank = max(len(shape), len(repeats))
    times, lengths = ([1] * (rank - len(numbers)) + [*numbers] for numbers in (repeats, shape))
    return list(zip(times, lengths, strict=True))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy with a repeat axis, which has stride 0, in front of each axis."""
    x = ctx.inputs["x"][0]
    pairs = _pairs(x.shape, ctx.attrs["repeats"])
    dims = [number for pair in pairs for number in pair]
    steps = compact_strides([length for _, length in pairs])
    strides = [number for step in steps for number in (0, step)]
    out, begin = plan.output("out"), plan.input("x")
    launch_move(plan, out, begin, dims, compact_strides(dims), strides, ITEM_BYTES[x.dtype])


TILE: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum over the repeats."""
    if not ctx.outputs["x_grad"]:
        return
    x_grad, out_grad = ctx.outputs["x_grad"][0], ctx.inputs["out_grad"][0]
    if count_of(out_grad) == 0:
        plan.fill(plan.output("x_grad"), bytes_of(x_grad))
        return
    pairs = _pairs(x_grad.shape, ctx.attrs["repeats"])
    dims = tuple(number for pair in pairs for number in pair)
    read = operand(plan.input("out_grad"), out_grad)._replace(shape=dims)
    made = operand(plan.output("x_grad"), x_grad)
    launch_reduction(plan, total_of(x_grad.dtype), read, range(0, len(dims), 2), made)


TILE_GRAD: Final = Kernel(_fill_in_grad)
