"""sequence_unpack, which pads packed sequences, and the gradients of packing and unpacking."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import BITS, CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lengths import launch_check
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.source import own_source


def _launch(
    ctx: PrepareContext,
    plan: LaunchPlan,
    kernel: str,
    pointers: tuple[Pointer, Pointer],
    padded: Meta,
    rows: int,
) -> None:
    """Add the computation of where each sequence begins, then the launch of `kernel`."""
    n, steps, *rest = padded.shape
    launch_check(ctx, plan, ctx.op_type, steps)
    index = CTYPES[ctx.inputs["lengths"][0].dtype]
    source, extents = own_source("sequence.cu"), Struct(np.array([n, steps, prod(rest)], np.int64))
    text = plan.fault_text(
        f"{ctx.op_type}: lengths must add up to the {rows} rows of the packed sequences, "
        "got a sum of {value}"
    )
    begins, lengths = plan.workspace(max(n, 1) * 8), plan.input("lengths")
    found: list[Argument] = [begins, lengths, extents, np.int64(rows), plan.fault(), text]
    plan.launch(source, f"sequence_begins<{index}>", 1, THREADS, found)
    arguments: list[Argument] = [*pointers, lengths, begins, extents, np.int64(rows)]
    expression = f"{kernel}<{BITS[ITEM_BYTES[padded.dtype]]}, {index}>"
    plan.launch(source, expression, blocks_for(prod(padded.shape), plan), THREADS, arguments)


def _fill_in_unpack(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy rows to their padded positions."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    pointers = plan.output("out"), plan.input("x")
    _launch(ctx, plan, "sequence_unpack", pointers, out, x.shape[0])


def _fill_in_pack_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the gradients of rows to their padded positions."""
    (out_grad,) = ctx.inputs["out_grad"]
    for x_grad in ctx.outputs["x_grad"]:
        pointers = plan.output("x_grad"), plan.input("out_grad")
        _launch(ctx, plan, "sequence_unpack", pointers, x_grad, out_grad.shape[0])


def _fill_in_unpack_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the gradients of steps to their rows."""
    (out_grad,) = ctx.inputs["out_grad"]
    for x_grad in ctx.outputs["x_grad"]:
        pointers = plan.output("x_grad"), plan.input("out_grad")
        _launch(ctx, plan, "sequence_pack", pointers, out_grad, x_grad.shape[0])


SEQUENCE_UNPACK: Final = Kernel(_fill_in_unpack)
SEQUENCE_UNPACK_GRAD: Final = Kernel(_fill_in_unpack_grad)
SEQUENCE_PACK_GRAD: Final = Kernel(_fill_in_pack_grad)
