"""layer_norm, rms_norm, group_norm, instance_norm, cos_sim and their gradients.

Means and variances need two passes. Between these passes, a row is kept in registers if it fits;
otherwise, it is reread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

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
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, fill_zeros
from opwright_cuda.source import own_source


def _launch(
    plan: LaunchPlan,
    team: Team,
    kernel: str,
    meta: Meta,
    arguments: Sequence[Argument],
    *parameters: str,
) -> None:
    source = own_source("normalization.cu")
    team.launch_typed(plan, source, kernel, meta.dtype, arguments, *parameters)


class _Rows(NamedTuple):
    """Normalized rows, and the layout of scale and bias.

    Attributes
    ----------
    lines : Lines
        The rows.
    centered : bool
        Whether the mean is subtracted.
    layout : tuple of numpy.uint32
        Groups per item, channels per group and elements per channel; empty if every element of a
        row has its own scale.
    """

    lines: Lines
    centered: bool
    layout: tuple[np.uint32, ...] = ()

    def parameter(self, ctx: PrepareContext, plan: LaunchPlan, slot: str) -> Struct:
        """Return the source of a scale or a bias; the defaults are 1 and 0."""
        ctype = compute_type(ctx.inputs["x"][0].dtype)
        otherwise = scalar(ctype, 1.0 if slot == "scale" else 0.0)
        given = plan.input(slot) if ctx.inputs.get(slot) else None
        return Struct(given, otherwise, *self.layout)

    def template(self, meta: Meta) -> tuple[str, str]:
        """Return the template arguments of the kernels after the dtype."""
        source = "ForChannels" if self.layout else "ForAllLines"
        return str(self.centered).lower(), f"{source}<{CTYPES[meta.dtype]}>"


def _rows(ctx: PrepareContext, centered: bool) -> _Rows:
    shape = ctx.inputs["x"][0].shape
    begin = ctx.attrs["begin_norm_axis"] % len(shape)
    return _Rows(Lines(math.prod(shape[:begin]), math.prod(shape[begin:]), 1), centered)


def _groups(ctx: PrepareContext, statistics: Meta) -> _Rows:
    """Return the rows of groups of channels; their statistics are [n, groups]."""
    shape, (n, groups) = ctx.inputs["x"][0].shape, statistics.shape
    channels, inner = shape[1] // max(groups, 1), math.prod(shape[2:])
    if channels * inner >= 2**31:
        ctx.refuse(f"a group must have fewer than 2**31 elements, got {channels * inner}")
    layout = (np.uint32(groups), np.uint32(channels), np.uint32(inner))
    return _Rows(Lines(n * groups, channels * inner, 1), True, layout)


def _normalize(ctx: PrepareContext, plan: LaunchPlan, rows: _Rows) -> None:
    """Normalize every row."""
    x = ctx.inputs["x"][0]
    if math.prod(x.shape) == 0:
        fill_zeros(ctx, plan)
        return
    mean = plan.output("mean") if rows.centered else None
    inv_std = plan.output("inv_std" if rows.centered else "inv_rms")
    parameters = [rows.parameter(ctx, plan, slot) for slot in ("scale", "bias")]
    epsilon = scalar(compute_type(x.dtype), ctx.attrs["epsilon"])
    arguments = [plan.output("out"), mean, inv_std, plan.input("x"), *parameters, epsilon]
    team = team_to_keep(rows.lines, x.dtype)
    _launch(plan, team, "layer_norm_lines", x, arguments, *rows.template(x))


def _fill_in_layer_norm(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Normalize every row."""
    _normalize(ctx, plan, _rows(ctx, True))


def _fill_in_rms_norm(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Divide every row by its root mean square."""
    _normalize(ctx, plan, _rows(ctx, False))


def _fill_in_group_norm(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Normalize every group of channels."""
    _normalize(ctx, plan, _groups(ctx, ctx.outputs["mean"][0]))


LAYER_NORM: Final = Kernel(_fill_in_layer_norm)
RMS_NORM: Final = Kernel(_fill_in_rms_norm)
GROUP_NORM: Final = Kernel(_fill_in_group_norm)


def _read(plan: LaunchPlan, rows: _Rows) -> list[Argument]:
    """Return the inputs of the row gradients."""
    mean = plan.input("mean") if rows.centered else None
    inv_std = plan.input("inv_std" if rows.centered else "inv_rms")
    return [plan.input("x"), mean, inv_std, plan.input("out_grad")]


def _add_x_grad(ctx: PrepareContext, plan: LaunchPlan, rows: _Rows) -> None:
    """Compute the gradient of the rows if requested."""
    x = ctx.inputs["x"][0]
    if ctx.outputs["x_grad"]:
        source, *others = _read(plan, rows)
        arguments = [plan.output("x_grad"), source, rows.parameter(ctx, plan, "scale"), *others]
        team = team_to_keep(rows.lines, x.dtype, n_arrays=2)
        _launch(plan, team, "layer_norm_grad_lines", x, arguments, *rows.template(x))


def _parameter_grads(ctx: PrepareContext, plan: LaunchPlan) -> list[Pointer | None]:
    """Return the outputs for the bias and scale gradients, with None for unrequested gradients."""
    slots = ("bias_grad", "scale_grad")
    return [plan.output(slot) if ctx.outputs.get(slot) else None for slot in slots]


def _add_pairs(
    plan: LaunchPlan, x: Meta, pairs: Pointer, shape: tuple[int, int], target: Struct
) -> None:
    """Sum the rows of an array of pairs."""
    team = columns_of(Lines(1, *shape), 1, may_split=False)
    expression = f"sum_pair_columns<{CTYPES[x.dtype]}>"
    team.launch(plan, own_source("normalization.cu"), expression, [target, pairs])


def _differentiate_rows(ctx: PrepareContext, plan: LaunchPlan, rows: _Rows) -> None:
    """Compute the gradients of the rows, and of scale and bias per element of a row."""
    x = ctx.inputs["x"][0]
    if math.prod(x.shape) == 0:
        fill_zeros(ctx, plan)
        return
    _add_x_grad(ctx, plan, rows)
    wanted = _parameter_grads(ctx, plan)
    if wanted == [None, None]:
        return
    target, centered = Struct(None, *wanted), str(rows.centered).lower()
    team = columns_of(Lines(1, *rows.lines[:2]), VECTOR_BYTES // ITEM_BYTES[x.dtype])
    read = _read(plan, rows)
    if team.parts == 1:
        _launch(plan, team, "layer_norm_sum_columns", x, [target, *read], centered)
        return
    pairs = partials(plan, team, 2 * compute_bytes(x.dtype))
    sums = Struct(pairs, None, None)
    _launch(plan, team, "layer_norm_sum_columns", x, [sums, *read], centered)
    _add_pairs(plan, x, pairs, (team.parts, rows.lines.length), target)


def _fill_in_layer_norm_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of the rows, and of scale and bias."""
    _differentiate_rows(ctx, plan, _rows(ctx, True))


def _fill_in_rms_norm_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of the rows and of the scale."""
    _differentiate_rows(ctx, plan, _rows(ctx, False))


def _fill_in_group_norm_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of the groups, and of scale and bias per channel."""
    x = ctx.inputs["x"][0]
    if math.prod(x.shape) == 0:
        fill_zeros(ctx, plan)
        return
    rows = _groups(ctx, ctx.inputs["mean"][0])
    _add_x_grad(ctx, plan, rows)
    wanted = _parameter_grads(ctx, plan)
    if wanted == [None, None]:
        return
    _, channels, inner = map(int, rows.layout)
    pairs = plan.workspace(x.shape[0] * x.shape[1] * 2 * compute_bytes(x.dtype))
    team = streamed(Lines(x.shape[0] * x.shape[1], inner, 1), x.dtype)
    arguments = [pairs, *_read(plan, rows), np.int64(channels)]
    _launch(plan, team, "group_norm_sum_lines", x, arguments)
    _add_pairs(plan, x, pairs, (x.shape[0], x.shape[1]), Struct(None, *wanted))


LAYER_NORM_GRAD: Final = Kernel(_fill_in_layer_norm_grad)
RMS_NORM_GRAD: Final = Kernel(_fill_in_rms_norm_grad)
GROUP_NORM_GRAD: Final = Kernel(_fill_in_group_norm_grad)


def _broadcast_shape(ctx: PrepareContext) -> tuple[int, ...]:
    """Return the broadcast shape of x and y, before the reduction."""
    x, y, axis = ctx.inputs["x"][0].shape, ctx.inputs["y"][0].shape, ctx.attrs["axis"]
    if not x or len(x) != len(y) or x[axis] != y[axis]:
        ctx.refuse(f"reads vectors of equal length and rank, got {list(x)} and {list(y)}")
    return tuple(b if a == 1 else a for a, b in zip(x, y, strict=True))


def _fill_in_cos_sim(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute cosines and norms, in one launch without broadcasting."""
    x, y, out = ctx.inputs["x"][0], ctx.inputs["y"][0], ctx.outputs["out"][0]
    ctype, axis = compute_type(x.dtype), ctx.attrs["axis"]
    scale, epsilon = (scalar(ctype, ctx.attrs[name]) for name in ("scale", "epsilon"))
    shape = _broadcast_shape(ctx)
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
    terms = Operand(plan.workspace(math.prod(shape) * compute_bytes(x.dtype)), shape, ctype)
    launch_elementwise(plan, f"CosineTerm<{ctype}>", terms, operands, Struct(scale))
    made = operand(plan.output("out"), out)
    launch_reduction(plan, total_of(x.dtype), terms, [axis % len(shape)], made)


COS_SIM: Final = Kernel(_fill_in_cos_sim)


def _fill_in_cos_sim_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of both sides, summed over broadcast axes."""
    dtype = ctx.inputs["x"][0].dtype
    ctype = compute_type(dtype)
    # Epsilon is rounded to the dtype, because norms that were clamped to it were rounded as well.
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
