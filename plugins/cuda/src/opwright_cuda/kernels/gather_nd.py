"""Slices selected by index vectors."""

from __future__ import annotations

import math
from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.kernels.add_slices import LookUp, Slices, launch_add_slices
from opwright_cuda.kernels.gather import launch_gather
from opwright_cuda.kernels.places import launch_row_places
from opwright_cuda.launch import Kernel, LaunchPlan, count_of


def _look_up(ctx: PrepareContext, shape: tuple[int, ...]) -> LookUp:
    k = ctx.inputs["index"][0].shape[-1]
    return LookUp(1, math.prod(shape[:k]), math.prod(shape[k:]), 0, -1)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Find the rows, then copy them."""
    (x,) = ctx.inputs["x"]
    if count_of(ctx.outputs["out"][0]) == 0:
        return
    rows = launch_row_places(ctx, plan, x, 1)
    launch_gather(plan, "x", x, rows.pointer, rows.meta, _look_up(ctx, x.shape), ctx.op_type)


GATHER_ND: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Find the rows, then sum the gradients of each row."""
    if not ctx.outputs["x_grad"]:
        return
    (x_grad,) = ctx.outputs["x_grad"]
    rows = launch_row_places(ctx, plan, x_grad, 1)
    look_up = _look_up(ctx, x_grad.shape)
    slices = Slices(plan.input("out_grad"), rows.pointer, rows.meta)
    launch_add_slices(
        plan, plan.output("x_grad"), x_grad, slices, look_up, look_up.text("gather_nd")
    )


GATHER_ND_GRAD: Final = Kernel(_fill_in_grad)
