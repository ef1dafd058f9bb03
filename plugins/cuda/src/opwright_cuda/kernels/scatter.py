"""Elements gathered at indices along an axis, and elements combined with updates."""

from __future__ import annotations

import math
from typing import Final

from opwright.kernel import PrepareContext, Refuse
from opwright_cuda.dtypes import CTYPES, compute_bytes
from opwright_cuda.kernels.add_slices import LookUp, Slices, launch_add_slices, launch_listing
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.places import (
    Places,
    launch_element_places,
    launch_row_places,
    launch_take,
)
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, bytes_of, count_of
from opwright_cuda.launch.indexing import NARROW
from opwright_cuda.source import own_source

_RULES: Final = {
    "none": ("Last", "GradOfLast"),
    "add": ("Add", "GradOfSum"),
    "mul": ("Multiply", "GradOfProduct"),
    "max": ("Maximum", "GradOfExtremum"),
    "min": ("Minimum", "GradOfExtremum"),
}
"""Functors of scatter.cu by the attribute ``reduction``."""


def _fill_in_take(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the elements at the indices."""
    launch_take(ctx, plan)


TAKE_ALONG_AXIS: Final = Kernel(_fill_in_take)


def _fill_in_take_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum the gradients of the elements with the same index."""
    if not ctx.outputs["x_grad"]:
        return
    (x_grad,), (out_grad,) = ctx.outputs["x_grad"], ctx.inputs["out_grad"]
    places = launch_element_places(ctx, plan, x_grad, out_grad.shape, repeats=True)
    look_up = LookUp(1, count_of(x_grad), 1, 0, -1)
    slices = Slices(plan.input("out_grad"), places.pointer, places.meta)
    text = look_up.text("take_along_axis")
    launch_add_slices(plan, plan.output("x_grad"), x_grad, slices, look_up, text)


TAKE_ALONG_AXIS_GRAD: Final = Kernel(_fill_in_take_grad)


def _places(ctx: PrepareContext, plan: LaunchPlan) -> Places:
    (x,), (index,) = ctx.inputs["x"], ctx.inputs["index"]
    if ctx.op_type.startswith("scatter_nd"):
        return launch_row_places(ctx, plan, x, math.prod(x.shape[index.shape[-1] :]))
    return launch_element_places(ctx, plan, x, index.shape, repeats=False)


def _listed(ctx: PrepareContext, plan: LaunchPlan) -> Struct:
    """Add the launches that list the updates of each index; return ``Listed`` of listed.h."""
    n, count = count_of(ctx.inputs["updates"][0]), count_of(ctx.inputs["x"][0])
    if max(n, count) >= NARROW:
        raise Refuse(f"at most {NARROW - 1} elements are supported, got {max(n, count)}")
    places = _places(ctx, plan)
    look_up = LookUp(1, count, 1, 0, -1)
    report: list[Argument] = [plan.fault(), plan.fault_text(look_up.text(ctx.op_type))]
    return launch_listing(plan, places.pointer, places.meta, look_up, report)


def _grid(ctx: PrepareContext, plan: LaunchPlan) -> int:
    n = min(count_of(ctx.inputs["updates"][0]), count_of(ctx.inputs["x"][0]))
    return blocks_for(n, plan)


def _fill_in_scatter(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy x, then combine each element with the updates at its index."""
    (x,), (updates,) = ctx.inputs["x"], ctx.inputs["updates"]
    plan.copy(plan.output("out"), plan.input("x"), bytes_of(x))
    if count_of(updates) == 0:
        return
    listed = _listed(ctx, plan)
    rule, _ = _RULES[ctx.attrs["reduction"]]
    arguments: list[Argument] = [plan.output("out"), plan.input("updates"), listed]
    expression = f"combine<{CTYPES[x.dtype]}, {rule}>"
    plan.launch(own_source("scatter.cu"), expression, _grid(ctx, plan), THREADS, arguments)


SCATTER: Final = Kernel(_fill_in_scatter)
"""scatter and scatter_nd."""


def _fill_in_scatter_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the gradient of out, then write the gradients of every index that has updates."""
    (x,), (updates,) = ctx.inputs["x"], ctx.inputs["updates"]
    x_grad, updates_grad = plan.optional_output("x_grad"), plan.optional_output("updates_grad")
    if x_grad is not None:
        plan.copy(x_grad, plan.input("out_grad"), bytes_of(x))
    if count_of(updates) == 0:
        return
    listed = _listed(ctx, plan)
    read = [plan.input(slot) for slot in ("x", "updates", "out", "out_grad")]
    reduction = ctx.attrs["reduction"]
    n_bytes = count_of(updates) * compute_bytes(x.dtype) if reduction == "mul" else 0
    before = plan.workspace(n_bytes) if n_bytes else None
    arguments: list[Argument] = [Struct(*read, x_grad, updates_grad), before, listed]
    _, rule = _RULES[reduction]
    expression = f"combine_grad<{CTYPES[x.dtype]}, {rule}>"
    plan.launch(own_source("scatter.cu"), expression, _grid(ctx, plan), THREADS, arguments)


SCATTER_GRAD: Final = Kernel(_fill_in_scatter_grad)
"""The gradients of scatter and scatter_nd."""
