"""Conversion to a different dtype."""

from __future__ import annotations

from typing import Final

from opwright.kernel import PrepareContext, Refuse
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import launch_elementwise, operand
from opwright_cuda.launch import Kernel, LaunchPlan, bytes_of


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Convert every element."""
    x, out = ctx.inputs["x"][0], ctx.outputs["out"][0]
    if x.dtype == out.dtype:
        plan.copy(plan.output("out"), plan.input("x"), bytes_of(x))
        return
    if out.dtype not in CTYPES:
        raise Refuse(f"conversion to {out.dtype} is not supported on this device")
    inputs = [operand(plan.input("x"), x)]
    function = f"Cast<{CTYPES[out.dtype]}>"
    launch_elementwise(plan, function, operand(plan.output("out"), out), inputs)


CAST: Final = Kernel(_fill_in)
"""The kernel for all pairs of dtypes; conversions that NumPy leaves undefined behave as on x86."""
