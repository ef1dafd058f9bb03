"""Select each row from one of several tensors."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.movement import index_type, unit_of
from opwright_cuda.launch import UNITS, Argument, Kernel, LaunchPlan, Pointer, bytes_of
from opwright_cuda.launch.indexing import Layout, layout_struct
from opwright_cuda.source import own_source


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the selected rows of each tensor."""
    (out,) = ctx.outputs["out"]
    sides = [(plan.output("out"), plan.input("x", i)) for i in range(len(ctx.inputs["x"]))]
    _launch(ctx, plan, sides, bytes_of(out), out.dtype, "false")


MULTIPLEX: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the gradients of the selected rows; other rows are 0."""
    (grad,) = ctx.inputs["out_grad"]
    outputs = range(len(ctx.outputs["x_grad"]))
    sides = [(plan.output("x_grad", i), plan.input("out_grad")) for i in outputs]
    _launch(ctx, plan, sides, bytes_of(grad), grad.dtype, "true")


MULTIPLEX_GRAD: Final = Kernel(_fill_in_grad)


def _launch(
    ctx: PrepareContext,
    plan: LaunchPlan,
    sides: list[tuple[Pointer, Pointer]],
    n_bytes: int,
    dtype: str,
    with_zeros: str,
) -> None:
    """Add a launch for each pair (output, input)."""
    (index,) = ctx.inputs["index"]
    if n_bytes == 0:
        return
    rows, count = index.shape[0], len(sides)
    unit = unit_of(ITEM_BYTES[dtype], [n_bytes // rows])
    n = n_bytes // unit
    dims = layout_struct(Layout((rows, n // rows), ()))
    text = plan.fault_text(f"multiplex: index must be in [0, {count}), got {{value}}")
    types = f"{UNITS[unit]}, {CTYPES[index.dtype]}, {index_type(n)}, {with_zeros}"
    for which, (out, x) in enumerate(sides):
        arguments: list[Argument] = [out, x, plan.input("index"), np.int64(n), dims]
        arguments += [np.int64(which), np.int64(count), plan.fault(), text]
        source = own_source("multiplex.cu")
        plan.launch(source, f"take_rows<{types}>", blocks_for(n, plan), THREADS, arguments)
