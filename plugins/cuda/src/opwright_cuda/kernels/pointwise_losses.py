"""Element-wise losses of a score and its label, or of two scores."""

from __future__ import annotations

from typing import Final, NamedTuple

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import compute_type
from opwright_cuda.kernels.elementwise import launch_elementwise, operand
from opwright_cuda.kernels.reduction import scalar
from opwright_cuda.launch import Kernel, LaunchPlan, Struct


class Formula(NamedTuple):
    """A loss.

    Attributes
    ----------
    name : str
        The template in loss_functions.h.
    parameter : str or None
        The attribute that sets the template's data member.
    constant : float or None
        The value of the data member if no attribute sets it.
    """

    name: str
    parameter: str | None = None
    constant: float | None = None


FORMULAS: Final = {
    "l1": Formula("L1Loss"),
    "smooth_l1": Formula("SmoothL1Loss", "beta"),
    "huber": Formula("HuberLoss", "delta"),
    "hinge": Formula("HingeLoss", constant=1.0),
    "margin_rank_loss": Formula("HingeLoss", "margin"),
    "rank_loss": Formula("PairLoss"),
    "log_loss": Formula("LogLoss", "epsilon"),
}


def _formula_of(ctx: PrepareContext) -> Formula:
    op_type = ctx.op_type.removesuffix("_grad")
    if op_type == "kl_div":
        return Formula("KlOfLogs" if ctx.attrs["log_label"] else "KlOfNumbers")
    return FORMULAS[op_type]


def _launch(ctx: PrepareContext, plan: LaunchPlan, functor: str, output: str) -> None:
    """Launch a functor over an output; it reads all inputs, in slot order."""
    formula = _formula_of(ctx)
    meta = ctx.inputs["x"][0]
    ctype = compute_type(meta.dtype)
    value = formula.constant if formula.parameter is None else ctx.attrs[formula.parameter]
    members = None if value is None else Struct(scalar(ctype, value))
    inputs = [operand(plan.input(slot), metas[0]) for slot, metas in ctx.inputs.items()]
    out = operand(plan.output(output), ctx.outputs[output][0])
    launch_elementwise(plan, f"{functor}<{formula.name}, {ctype}>", out, inputs, members)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the loss of every element."""
    _launch(ctx, plan, "LossOf", "out")


LOSS: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of scores and label."""
    for slot, metas in ctx.outputs.items():
        if metas:
            _launch(ctx, plan, f"GradOf{slot.removesuffix('_grad').capitalize()}", slot)


LOSS_GRAD: Final = Kernel(_fill_in_grad)
