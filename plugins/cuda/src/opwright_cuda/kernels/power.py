"""Powers and their gradient."""

from __future__ import annotations

from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import FLOATS, ITEM_BYTES, compute_type
from opwright_cuda.kernels.elementwise import Operand, launch_elementwise, operand
from opwright_cuda.kernels.reduction import launch_reduction, total_of
from opwright_cuda.launch import Kernel, LaunchPlan, Struct, count_of

_BELOW_0: Final = (
    "power: Integers to negative integer powers are not allowed, got an exponent of {value}; "
    "cast x and y to a float dtype"
)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute x**y; integers wrap around, and a negative exponent is reported."""
    out = operand(plan.output("out"), ctx.outputs["out"][0])
    inputs = [operand(plan.input(slot), ctx.inputs[slot][0]) for slot in ("x", "y")]
    dtype = ctx.inputs["x"][0].dtype
    if dtype in FLOATS:
        launch_elementwise(plan, f"Power<{compute_type(dtype)}>", out, inputs)
        return
    functor = Struct(plan.fault(), plan.fault_text(_BELOW_0))
    launch_elementwise(plan, f"WholePower<{compute_type(dtype)}>", out, inputs, functor)


POWER: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients, summed over broadcast axes."""
    out = ctx.inputs["out"][0]
    slots = ("x", "y", "out", "out_grad")
    ctype = compute_type(out.dtype)
    for slot, function in (("x", "PowerGradOfBase"), ("y", "PowerGradOfExponent")):
        for meta in ctx.outputs[f"{slot}_grad"]:
            inputs = [operand(plan.input(name), ctx.inputs[name][0]) for name in slots]
            grad = operand(plan.output(f"{slot}_grad"), meta)
            axes = _repeated_axes(meta.shape, out.shape)
            full_grad = grad
            if axes:
                scratch = plan.workspace(count_of(out) * max(4, ITEM_BYTES[out.dtype]))
                full_grad = Operand(scratch, out.shape, ctype)
            launch_elementwise(plan, f"{function}<{ctype}>", full_grad, inputs)
            if axes:
                launch_reduction(plan, total_of(out.dtype), full_grad, axes, grad)


def _repeated_axes(shape: tuple[int, ...], out: tuple[int, ...]) -> list[int]:
    added = len(out) - len(shape)
    return [i for i, dim in enumerate(out) if i < added or shape[i - added] == 1 != dim]


POWER_GRAD: Final = Kernel(_fill_in_grad)
