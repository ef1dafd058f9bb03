"""layer_norm, cos_sim and their gradients.

Means and variances are those of two passes: a row is kept between them where there is room, and
read again where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta, dtype_to_numpy
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES, compute_bytes, compute_type
from opwright_cuda.kernels.elementwise import (
    Operand,
    launch_elementwise,
    operand,
)
from opwright_cuda.kernels.lines import (
    VECTOR_BYTES,
    Lines,
    Team,
    columns_of,
    lines_along,
    partials,
    streamed,
    team_to_keep,
)
from opwright_cuda.kernels.reduction import launch_reduction, scalar, total_of
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, bytes_of
from opwright_cuda.source import own_source


def _launch(
    plan: LaunchPlan, team: Team, kernel: str, meta: Meta, arguments: Sequence[Argument]
) -> None:
    expression = f"{kernel}<{team.ctype}, {CTYPES[meta.dtype]}>"
    team.launch(plan, own_source("normalization.cu"), expression, arguments)


def _fill_zeros(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write zeros to all outputs."""
    for slot, metas in ctx.outputs.items():
        if metas:
            plan.fill(plan.output(slot), bytes_of(metas[0]))


def _rows(ctx: PrepareContext) -> Lines:
    shape = ctx.inputs["x"][0].shape
    begin = ctx.attrs["begin_norm_axis"] % len(shape)
    return Lines(math.prod(shape[:begin]), math.prod(shape[begin:]), 1)


def _fill_in_layer_norm(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Normalise every row."""
    x = ctx.inputs["x"][0]
    if math.prod(x.shape) == 0:
        _fill_zeros(ctx, plan)
        return
    outputs = [plan.output(slot) for slot in ("out", "mean", "inv_std")]
    inputs = [plan.optional_input(slot) for slot in ("x", "scale", "bias")]
    epsilon = scalar(compute_type(x.dtype), ctx.attrs["epsilon"])
    team = team_to_keep(_rows(ctx), x.dtype)
    _launch(plan, team, "layer_norm_lines", x, [*outputs, *inputs, epsilon])


LAYER_NORM: Final = Kernel(_fill_in_layer_norm)


def _fill_in_layer_norm_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of the rows, and of scale and bias."""
    x = ctx.inputs["x"][0]
    if math.prod(x.shape) == 0:
        _fill_zeros(ctx, plan)
        return
    rows = _rows(ctx)
    slots = ("x", "scale", "mean", "inv_std", "out_grad")
    read = {slot: plan.optional_input(slot) for slot in slots}
    if ctx.outputs["x_grad"]:
        team = team_to_keep(rows, x.dtype, n_arrays=2)
        _launch(plan, team, "layer_norm_grad_lines", x, [plan.output("x_grad"), *read.values()])
    bias_grad, scale_grad = (plan.optional_output(slot) for slot in ("bias_grad", "scale_grad"))
    if bias_grad is None and scale_grad is None:
        return
    del read["scale"]
    target = Struct(None, bias_grad, scale_grad)
    team = columns_of(Lines(1, *rows[:2]), VECTOR_BYTES // ITEM_BYTES[x.dtype])
    if team.parts == 1:
        _launch(plan, team, "layer_norm_sum_columns", x, [target, *read.values()])
        return
    found = partials(plan, team, 2 * compute_bytes(x.dtype))
    sums = Struct(found, None, None)
    _launch(plan, team, "layer_norm_sum_columns", x, [sums, *read.values()])
    team = columns_of(Lines(1, team.parts, rows.length), 1, may_split=False)
    expression = f"sum_pair_columns<{CTYPES[x.dtype]}>"
    team.launch(plan, own_source("normalization.cu"), expression, [target, found])


LAYER_NORM_GRAD: Final = Kernel(_fill_in_layer_norm_grad)


def _broadcast_shape(ctx: PrepareContext) -> tuple[int, ...]:
    """Return the shape of x times y, before anything is added up."""
    x, y = ctx.inputs["x"][0].shape, ctx.inputs["y"][0].shape
    return tuple(b if a == 1 else a for a, b in zip(x, y, strict=True))


def _fill_in_cos_sim(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute cosines and norms; in one launch where nothing is broadcast."""
    x, y, out = ctx.inputs["x"][0], ctx.inputs["y"][0], ctx.outputs["out"][0]
    ctype, axis = compute_type(x.dtype), ctx.attrs["axis"]
    scale, epsilon = (scalar(ctype, ctx.attrs[name]) for name in ("scale", "epsilon"))
    if x.shape == y.shape:
        team = team_to_keep(lines_along(x.shape, axis), x.dtype, n_arrays=2)
        outputs = [plan.output(slot) for slot in ("out", "x_norm", "y_norm")]
        inputs = (plan.input("x"), plan.input("y"))
        _launch(plan, team, "cos_sim_lines", x, [*outputs, *inputs, scale, epsilon])
        return
    operands = []
    for slot, meta in (("x", x), ("y", y)):
        team = streamed(lines_along(meta.shape, axis), meta.dtype)
        norm = plan.output(f"{slot}_norm")
        _launch(plan, team, "norm_lines", meta, [norm, plan.input(slot), epsilon])
        operands.append(operand(plan.input(slot), meta))
        operands.append(operand(norm, ctx.outputs[f"{slot}_norm"][0]))
    shape = _broadcast_shape(ctx)
    terms = Operand(plan.workspace(math.prod(shape) * compute_bytes(x.dtype)), shape, ctype)
    launch_elementwise(plan, f"CosineTerm<{ctype}>", terms, operands, Struct(scale))
    made = operand(plan.output("out"), out)
    launch_reduction(plan, total_of(x.dtype), terms, [axis % len(shape)], made)


COS_SIM: Final = Kernel(_fill_in_cos_sim)


def _fill_in_cos_sim_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of both sides, added up where they were broadcast."""
    dtype = ctx.inputs["x"][0].dtype
    ctype = compute_type(dtype)
    # A norm that was held at epsilon was rounded with it when it was stored.
    epsilon = float(np.array(ctx.attrs["epsilon"]).astype(dtype_to_numpy(dtype)))
    members = Struct(scalar(ctype, ctx.attrs["scale"]), scalar(ctype, epsilon))
    read = {
        slot: operand(plan.input(slot), metas[0]) for slot, metas in ctx.inputs.items() if metas
    }
    shape = _broadcast_shape(ctx)
    for own, other in (("x", "y"), ("y", "x")):
        if not ctx.outputs[f"{own}_grad"]:
            continue
        slots = (own, f"{own}_norm", other, f"{other}_norm", "out", "out_grad")
        inputs = [read[slot] for slot in slots]
        made = operand(plan.output(f"{own}_grad"), ctx.outputs[f"{own}_grad"][0])
        if made.shape == shape:
            launch_elementwise(plan, f"CosineGrad<{ctype}>", made, inputs, members)
            continue
        n_bytes = math.prod(shape) * compute_bytes(dtype)
        terms = Operand(plan.workspace(n_bytes), shape, ctype)
        launch_elementwise(plan, f"CosineGrad<{ctype}>", terms, inputs, members)
        axes = [i for i, dim in enumerate(made.shape) if dim != shape[i]]
        launch_reduction(plan, total_of(dtype), terms, axes, made)


COS_SIM_GRAD: Final = Kernel(_fill_in_cos_sim_grad)
