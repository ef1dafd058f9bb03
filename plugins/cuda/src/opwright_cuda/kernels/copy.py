"""Copies of complete tensors, in any shape, and of broadcast tensors."""

from __future__ import annotations

from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import BITS, ITEM_BYTES
from opwright_cuda.kernels.elementwise import launch_elementwise, operand
from opwright_cuda.launch import Kernel, LaunchPlan, bytes_of


def _fill_in_copy(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the elements in order."""
    plan.copy(plan.output("out"), plan.input("x"), bytes_of(ctx.inputs["x"][0]))


COPY: Final = Kernel(_fill_in_copy)


def _fill_in_expand(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Repeat the elements along broadcast axes."""
    x, out = ctx.inputs["x"][0], ctx.outputs["out"][0]
    bits = BITS[ITEM_BYTES[x.dtype]]
    inputs = [operand(plan.input("x"), x, bits)]
    launch_elementwise(plan, f"Identity<{bits}>", operand(plan.output("out"), out, bits), inputs)


EXPAND: Final = Kernel(_fill_in_expand)
