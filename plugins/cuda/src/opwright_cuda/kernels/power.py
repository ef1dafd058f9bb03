"""Powers."""

from __future__ import annotations

from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import FLOATS, compute_type
from opwright_cuda.kernels.elementwise import launch_elementwise, operand
from opwright_cuda.launch import Kernel, LaunchPlan, Struct

_BELOW_0: Final = (
    "power: Integers to negative integer powers are not allowed, got an exponent of {value}; "
    "cast x and y to a float dtype"
)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute x**y; whole numbers wrap around, and an exponent below 0 is reported."""
    out = operand(plan.output("out"), ctx.outputs["out"][0])
    inputs = [operand(plan.input(slot), ctx.inputs[slot][0]) for slot in ("x", "y")]
    dtype = ctx.inputs["x"][0].dtype
    if dtype in FLOATS:
        launch_elementwise(plan, f"Power<{compute_type(dtype)}>", out, inputs)
        return
    functor = Struct(plan.fault(), plan.fault_text(_BELOW_0))
    launch_elementwise(plan, f"WholePower<{compute_type(dtype)}>", out, inputs, functor)


POWER: Final = Kernel(_fill_in)
