"""Slices selected by index: gather and embedding."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.add_slices import LookUp, Slices, launch_add_slices
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.movement import index_type, unit_of
from opwright_cuda.launch import UNITS, Argument, Kernel, LaunchPlan, Pointer, count_of
from opwright_cuda.launch.indexing import Layout, layout_struct
from opwright_cuda.source import own_source


def _look_up(ctx: PrepareContext, table: Meta) -> LookUp:
    if "padding_index" in ctx.attrs:
        count, size = table.shape
        return LookUp(1, count, size, 0, ctx.attrs["padding_index"])
    shape = table.shape or (1,)
    axis = ctx.attrs["axis"] % len(shape)
    outer, row = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return LookUp(outer, shape[axis], row, -shape[axis], -1)


def launch_gather(
    plan: LaunchPlan,
    slot: str,
    table: Meta,
    index: Pointer,
    index_meta: Meta,
    look_up: LookUp,
    op_type: str,
) -> None:
    """Add the copy of slices; indices out of range are reported and yield slices of 0.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend; the slot ``out``, which must not be empty, is written.
    slot, table : str, Meta
        The input with the slices.
    index, index_meta : Pointer, Meta
        The indices.
    look_up : LookUp
        The dimensions.
    op_type : str
        For error messages.
    """
    item_bytes = ITEM_BYTES[table.dtype]
    unit = unit_of(item_bytes, [look_up.row * item_bytes])
    dims = (look_up.outer, count_of(index_meta), look_up.row * item_bytes // unit)
    n = math.prod(dims)
    arguments: list[Argument] = [plan.output("out"), plan.input(slot), index]
    arguments += [np.int64(n), layout_struct(Layout(dims, ()))]
    arguments += [np.int64(i) for i in (look_up.least, look_up.count, look_up.zero_at)]
    arguments += [plan.fault(), plan.fault_text(look_up.text(op_type))]
    expression = f"gather<{UNITS[unit]}, {CTYPES[index_meta.dtype]}, {index_type(n)}>"
    plan.launch(own_source("gather.cu"), expression, blocks_for(n, plan), THREADS, arguments)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the slices at the indices."""
    slot = "weight" if ctx.op_type == "embedding" else "x"
    table, index = ctx.inputs[slot][0], ctx.inputs["index"][0]
    if count_of(ctx.outputs["out"][0]) == 0:
        return
    look_up = _look_up(ctx, table)
    launch_gather(plan, slot, table, plan.input("index"), index, look_up, ctx.op_type)


GATHER: Final = Kernel(_fill_in)
"""gather and embedding."""


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum the gradients of the slices with the same index."""
    ((slot, metas),) = ctx.outputs.items()
    if not metas:
        return
    look_up = _look_up(ctx, metas[0])
    text = look_up.text(ctx.op_type.removesuffix("_grad"))
    slices = Slices(plan.input("out_grad"), plan.input("index"), ctx.inputs["index"][0])
    launch_add_slices(plan, plan.output(slot), metas[0], slices, look_up, text)


GATHER_GRAD: Final = Kernel(_fill_in_grad)
"""The gradients of gather and embedding."""
