"""batch_norm, what follows it, and the gradients.

Channels are cut into parts whose statistics a second launch puts together.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, compute_bytes, compute_type
from opwright_cuda.kernels.elementwise import THREADS, Operand, blocks_for, launch_elementwise
from opwright_cuda.kernels.lines import Lines, Team, partials, streamed, team_to_keep
from opwright_cuda.kernels.reduction import scalar
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, bytes_of
from opwright_cuda.source import own_source

CHANNEL_THREADS: Final = 128
"""In the block that puts a channel together."""

SOURCE: Final = "batch_norm.cu"


class Channels(NamedTuple):
    """The elements of each channel of [n, channels, size].

    Attributes
    ----------
    shape : tuple of int
        n, channels, size.
    team : Team
        Of the lines that make up the channels.
    parts : Struct
        ``Parts`` of batch_norm.cu: how the results of the teams belong to the channels.
    n_parts : int
        How many of them each channel has.
    """

    shape: tuple[int, int, int]
    team: Team
    parts: Struct
    n_parts: int


def _channels_of(meta: Meta, keeps: bool) -> Channels:
    n, channels, *rest = meta.shape
    size = math.prod(rest)
    lines = Lines(n * channels, size, 1) if size > 1 else Lines(1, n, channels)
    team = streamed(lines, meta.dtype, may_split=True)
    if keeps and team.parts == 1 and size > 1:
        team = team_to_keep(lines, meta.dtype)
    inner = team.parts if size > 1 else 1
    n_parts = n * team.parts if size > 1 else team.parts
    parts = Struct(np.int64(channels), np.int64(inner))
    return Channels((n, channels, size), team, parts, n_parts)


def _as_channel(shape: tuple[int, int, int], pointer: Pointer, ctype: str) -> Operand:
    return Operand(pointer, (1, shape[1], 1), ctype)


def _optional(ctx: PrepareContext, plan: LaunchPlan, slot: str) -> Pointer | None:
    """Return an input that only the fused operators have."""
    return plan.input(slot) if ctx.inputs.get(slot) else None


def _fill_in_statistics(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write the statistics that every channel is normalised by: its own, or the running ones."""
    meta = ctx.inputs["x"][0]
    ctype, source = compute_type(meta.dtype), own_source(SOURCE)
    n_channels = meta.shape[1]
    outputs = ("mean_out", "variance_out", "saved_mean", "saved_inv_std")
    statistics = Struct(
        plan.input("mean"), plan.input("variance"), *(plan.output(slot) for slot in outputs)
    )
    epsilon = scalar(ctype, ctx.attrs["epsilon"])
    if not ctx.attrs["training"] or math.prod(meta.shape) == 0:
        expression = f"use_statistics<{CTYPES[meta.dtype]}>"
        arguments: list[Argument] = [statistics, np.int64(n_channels), epsilon]
        plan.launch(source, expression, blocks_for(n_channels, plan), THREADS, arguments)
        return
    channels = _channels_of(meta, keeps=True)
    moments = partials(plan, channels.team, 3 * compute_bytes(meta.dtype))
    expression = f"moments_lines<{channels.team.ctype}, {CTYPES[meta.dtype]}>"
    channels.team.launch(plan, source, expression, [moments, plan.input("x")])
    arguments = [statistics, moments, channels.parts, np.int64(channels.n_parts)]
    arguments += [scalar(ctype, ctx.attrs["momentum"]), epsilon]
    expression = f"batch_statistics<{CTYPES[meta.dtype]}>"
    plan.launch(source, expression, n_channels, CHANNEL_THREADS, arguments)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Normalise every channel, then add the residual and apply the activation."""
    _fill_in_statistics(ctx, plan)
    meta = ctx.inputs["x"][0]
    shape = (meta.shape[0], meta.shape[1], math.prod(meta.shape[2:]))
    stored = CTYPES[meta.dtype]
    x, out = (Operand(at, shape, stored) for at in (plan.input("x"), plan.output("out")))
    saved = (plan.output(slot) for slot in ("saved_mean", "saved_inv_std"))
    pointers = (*saved, plan.input("scale"), plan.input("bias"))
    inputs = [x, *(_as_channel(shape, pointer, stored) for pointer in pointers)]
    residual = _optional(ctx, plan, "residual")
    if residual is not None:
        inputs.append(Operand(residual, shape, stored))
    is_relu = "true" if ctx.attrs.get("activation") else "false"
    launch_elementwise(plan, f"Normalize<{stored}, {is_relu}>", out, inputs)


BATCH_NORM: Final = Kernel(_fill_in)
"""batch_norm, and the fused operator that adds a residual and applies an activation."""


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of x, scale and bias, and of a residual."""
    meta = ctx.inputs["x"][0]
    if not ctx.inputs["out_grad"] or math.prod(meta.shape) == 0:
        for slot, metas in ctx.outputs.items():
            if metas:  # there is no gradient, or nothing to take it of
                plan.fill(plan.output(slot), bytes_of(metas[0]))
        return
    ctype, stored = compute_type(meta.dtype), CTYPES[meta.dtype]
    n_channels, n_bytes = meta.shape[1], compute_bytes(meta.dtype)
    means = [plan.workspace(n_channels * n_bytes) for _ in range(2)]
    # batch_norm_grad knows of a bias as well, but not its values.
    bias = _optional(ctx, plan, "bias") if ctx.attrs.get("activation") else None
    behind = plan.output("residual_grad") if ctx.outputs.get("residual_grad") else None
    uses_batch = ctx.attrs["training"]
    wanted = uses_batch or any(ctx.outputs[slot] for slot in ("scale_grad", "bias_grad"))
    if wanted or behind is not None:
        _fill_in_sums(ctx, plan, means, bias, behind)
    if not ctx.outputs["x_grad"]:
        return
    shape = (meta.shape[0], n_channels, math.prod(meta.shape[2:]))
    read = (plan.input("x"), behind or plan.input("out_grad"))
    inputs = [Operand(pointer, shape, stored) for pointer in read]
    slots = ("saved_mean", "saved_inv_std", "scale")
    inputs += [_as_channel(shape, plan.input(slot), stored) for slot in slots]
    if uses_batch:
        inputs += [_as_channel(shape, pointer, ctype) for pointer in means]
    if bias is not None:
        inputs.append(_as_channel(shape, bias, stored))
    x_grad = Operand(plan.output("x_grad"), shape, stored)
    launch_elementwise(plan, f"NormalizeGrad<{stored}>", x_grad, inputs)


def _fill_in_sums(
    ctx: PrepareContext,
    plan: LaunchPlan,
    means: list[Pointer],
    bias: Pointer | None,
    behind: Pointer | None,
) -> None:
    """Sum the gradient and its product with the normal; write what is made of these sums.

    Parameters
    ----------
    ctx, plan
        As elsewhere.
    means : list of Pointer
        Where the means of both are written.
    bias : Pointer, optional
        With it, relu's input is computed anew.
    behind : Pointer, optional
        Where the gradient behind relu is written.
    """
    meta = ctx.inputs["x"][0]
    ctype, stored, source = compute_type(meta.dtype), CTYPES[meta.dtype], own_source(SOURCE)
    channels = _channels_of(meta, keeps=False)
    pairs = partials(plan, channels.team, 2 * compute_bytes(meta.dtype))
    read = [plan.input(slot) for slot in ("x", "saved_mean", "saved_inv_std", "scale")]
    inputs = Struct(*read, bias, _optional(ctx, plan, "out"), plan.input("out_grad"), behind)
    kind = "kAnew" if bias is not None else "kOutGrad" if behind is None else "kOut"
    expression = f"batch_norm_sums<{channels.team.ctype}, {stored}, Source::{kind}>"
    n_channels = np.int64(meta.shape[1])
    channels.team.launch(plan, source, expression, [pairs, inputs, n_channels])
    made = [plan.optional_output(slot) for slot in ("bias_grad", "scale_grad")]
    share = scalar(ctype, 1 / (channels.shape[0] * channels.shape[2]))
    arguments: list[Argument] = [*means, *made, pairs, channels.parts]
    arguments += [np.int64(channels.n_parts), share]
    expression = f"batch_norm_means<{stored}>"
    plan.launch(source, expression, meta.shape[1], CHANNEL_THREADS, arguments)


BATCH_NORM_GRAD: Final = Kernel(_fill_in_grad)
"""Of batch_norm, and of the fused operator."""
