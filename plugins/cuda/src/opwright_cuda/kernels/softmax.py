"""softmax and log_softmax along an axis, and their gradients.

A row is read once and kept in the registers of a warp or block; longer rows and adjacent lines are
read twice.
"""

from __future__ import annotations

import math
from typing import Final

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.kernels.lines import lines_along, team_to_keep
from opwright_cuda.launch import Kernel, LaunchPlan, Pointer
from opwright_cuda.source import own_source


def launch_softmax(
    plan: LaunchPlan, op_type: str, out: Pointer, x: Pointer, meta: Meta, axis: int
) -> None:
    """Add softmax or log_softmax along an axis; out may share memory with x.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    op_type : str
        ``"softmax"`` or ``"log_softmax"``.
    out, x : Pointer
        Pointers to the compact output and input.
    meta : Meta
        Shape and dtype of `out` and `x`.
    axis : int
        The axis; a negative axis counts from the end.
    """
    if math.prod(meta.shape) == 0:
        return
    team = team_to_keep(lines_along(meta.shape, axis), meta.dtype)
    team.launch_typed(plan, own_source("softmax.cu"), f"{op_type}_lines", meta.dtype, [out, x])


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute softmax or log_softmax."""
    out, x = plan.output("out"), plan.input("x")
    launch_softmax(plan, ctx.op_type, out, x, ctx.inputs["x"][0], ctx.attrs["axis"])


SOFTMAX: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradient from out and its gradient."""
    if not ctx.outputs["x_grad"]:
        return
    meta = ctx.outputs["x_grad"][0]
    if math.prod(meta.shape) == 0:
        return
    team = team_to_keep(lines_along(meta.shape, ctx.attrs["axis"]), meta.dtype, n_arrays=2)
    arguments = [plan.output("x_grad"), plan.input("out"), plan.input("out_grad")]
    source, kernel = own_source("softmax.cu"), f"{ctx.op_type}_lines"
    team.launch_typed(plan, source, kernel, meta.dtype, [*arguments])


SOFTMAX_GRAD: Final = Kernel(_fill_in_grad)
