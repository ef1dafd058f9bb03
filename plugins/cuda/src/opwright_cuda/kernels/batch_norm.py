"""batch_norm with fused residual and activation, and the gradients.

16-bit images may have float32 parameters and statistics, as in mixed precision. Channels are split
into parts, and a second launch combines the statistics of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext, Refuse
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES, compute_bytes, compute_type
from opwright_cuda.kernels.elementwise import THREADS, Operand, blocks_for, launch_elementwise
from opwright_cuda.kernels.lines import (
    VECTOR_BYTES,
    WARP,
    Lines,
    Team,
    columns_of,
    partials,
    power_of_two,
    streamed,
    streamed_by_lanes,
)
from opwright_cuda.kernels.reduction import scalar
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, fill_zeros
from opwright_cuda.source import own_source

MOST_CHANNEL_THREADS: Final = 512
"""Maximum threads of the block that combines the parts of a channel, one per part if possible."""

MOST_OF_LANES: Final = 1024
"""Lines of at most this length are read by lanes of one warp, even if there are few lines."""

MANY_LINES: Final = 2048
"""Number of lines that keep a GPU busy if each is read by one warp."""

SOURCE: Final = "batch_norm.cu"


Shape = tuple[int, int, int]
"""n, channels, size."""


class Channels(NamedTuple):
    """The partition of channels into parts for teams.

    Attributes
    ----------
    team : Team
        For lines [n, channels], or for columns if a channel's elements are not contiguous.
    kernels : str
        The suffix of kernel names for this partition.
    parts : Struct
        ``Parts`` of batch_norm.cu: the layout of partial results.
    threads : int
        Threads that combine them.
    """

    team: Team
    kernels: str
    parts: Struct
    threads: int


def _shape_of(meta: Meta) -> Shape:
    return meta.shape[0], meta.shape[1], math.prod(meta.shape[2:])


def _channels_of(meta: Meta) -> Channels:
    n, channels, size = _shape_of(meta)
    vector = VECTOR_BYTES // ITEM_BYTES[meta.dtype]
    if size == 1:
        team = columns_of(Lines(1, n, channels), vector)
        return _put_together(team, "columns", channels, inner=1, outer=team.parts)
    lines = Lines(n * channels, size, 1)
    if size <= MOST_OF_LANES or (lines.outer >= MANY_LINES and size % vector == 0):
        team = streamed_by_lanes(lines, meta.dtype)
    else:
        team = streamed(lines, meta.dtype, may_split=True)
    return _put_together(team, "lines", channels, inner=team.parts, outer=n)


def _put_together(team: Team, kernels: str, channels: int, *, inner: int, outer: int) -> Channels:
    """Return the partition for parts of shape [outer, channels, inner]."""
    n = inner * outer
    threads = min(max(power_of_two(n), WARP), MOST_CHANNEL_THREADS)
    return Channels(team, kernels, Struct(*map(np.int64, (channels, inner, n))), threads)


class Types(NamedTuple):
    """C++ types of images, of parameters and statistics, and of the computation."""

    images: str
    parameters: str
    computed: str


def _types_of(ctx: PrepareContext) -> Types:
    images = ctx.inputs["x"][0].dtype
    return Types(CTYPES[images], CTYPES[ctx.inputs["scale"][0].dtype], compute_type(images))


def _as_channels(shape: Shape, pointers: Iterable[Pointer], ctype: str) -> list[Operand]:
    return [Operand(pointer, (1, shape[1], 1), ctype) for pointer in pointers]


def _find_input(ctx: PrepareContext, plan: LaunchPlan, slot: str) -> Pointer | None:
    """Return the input of a slot, or None if the operator does not have the slot."""
    return plan.input(slot) if ctx.inputs.get(slot) else None


def _check_activation(ctx: PrepareContext) -> None:
    activation = ctx.attrs.get("activation")
    if activation not in (None, "", "relu"):
        raise Refuse(f"activation must be relu, got {activation}")


def _fill_in_statistics(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write the statistics of every channel: batch statistics or running statistics."""
    meta = ctx.inputs["x"][0]
    types, source = _types_of(ctx), own_source(SOURCE)
    n, n_channels, size = _shape_of(meta)
    made = ("mean_out", "variance_out", "saved_mean", "saved_inv_std")
    running = (plan.input(slot) for slot in ("mean", "variance"))
    statistics = Struct(*running, *(plan.output(slot) for slot in made))
    epsilon, is_unbiased = scalar(types.computed, ctx.attrs["epsilon"]), ctx.attrs["unbiased"]
    if not ctx.attrs["training"] or math.prod(meta.shape) == 0:
        expression = f"use_statistics<{types.parameters}>"
        arguments: list[Argument] = [statistics, np.int64(n_channels), epsilon]
        plan.launch(source, expression, blocks_for(n_channels, plan), THREADS, arguments)
        return
    team, kernels, parts, threads = _channels_of(meta)
    moments = partials(plan, team, 3 * compute_bytes(meta.dtype))
    expression = f"moments_{kernels}<{team.ctype}, {types.images}>"
    x, momentum = plan.input("x"), scalar(types.computed, ctx.attrs["momentum"])
    team.launch(plan, source, expression, [moments, x, np.int64(n_channels)])
    runs = (np.int64(n), np.int64(size))
    count = n * size
    unbiased = count / (count - 1) if is_unbiased else 1.0
    correction = scalar(types.computed, unbiased)
    arguments = [statistics, moments, parts, x, *runs, momentum, epsilon, correction]
    expression = f"batch_statistics<{types.images}, {types.parameters}>"
    plan.launch(source, expression, n_channels, threads, arguments)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Normalize every channel, then add the residual and apply the activation."""
    _check_activation(ctx)
    _fill_in_statistics(ctx, plan)
    shape, types = _shape_of(ctx.inputs["x"][0]), _types_of(ctx)
    residual = _find_input(ctx, plan, "residual")
    read = [plan.input("x"), *([] if residual is None else [residual])]
    inputs = [Operand(pointer, shape, types.images) for pointer in read]
    pointers = [plan.output(slot) for slot in ("saved_mean", "saved_inv_std")]
    pointers += [plan.input(slot) for slot in ("scale", "bias")]
    inputs += _as_channels(shape, pointers, types.parameters)
    is_relu = "true" if ctx.attrs.get("activation") else "false"
    out = Operand(plan.output("out"), shape, types.images)
    launch_elementwise(plan, f"Normalize<{types.images}, {is_relu}>", out, inputs)


BATCH_NORM: Final = Kernel(_fill_in)
"""batch_norm, and the fused operator that adds a residual and applies an activation."""


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of x, scale and bias, and of a residual."""
    _check_activation(ctx)
    meta = ctx.inputs["x"][0]
    if math.prod(meta.shape) == 0:
        fill_zeros(ctx, plan)
        return
    shape, types = _shape_of(meta), _types_of(ctx)
    means = [plan.workspace(shape[1] * compute_bytes(meta.dtype)) for _ in range(2)]
    # batch_norm_grad has a bias slot as well, but reads only its shape.
    bias = _find_input(ctx, plan, "bias") if ctx.attrs.get("activation") else None
    behind = plan.output("residual_grad") if ctx.outputs.get("residual_grad") else None
    uses_batch = ctx.attrs["training"]
    of_channels = any(ctx.outputs[slot] for slot in ("scale_grad", "bias_grad"))
    if uses_batch or of_channels or behind is not None:
        _fill_in_sums(ctx, plan, means, bias, behind)
    if not ctx.outputs["x_grad"]:
        return
    read = (plan.input("x"), behind or plan.input("out_grad"))
    inputs = [Operand(pointer, shape, types.images) for pointer in read]
    pointers = [plan.input(slot) for slot in ("saved_mean", "saved_inv_std", "scale")]
    inputs += _as_channels(shape, pointers, types.parameters)
    inputs += _as_channels(shape, means if uses_batch else [], types.computed)
    inputs += _as_channels(shape, [] if bias is None else [bias], types.parameters)
    x_grad = Operand(plan.output("x_grad"), shape, types.images)
    launch_elementwise(plan, f"NormalizeGrad<{types.images}>", x_grad, inputs)


def _fill_in_sums(
    ctx: PrepareContext,
    plan: LaunchPlan,
    means: list[Pointer],
    bias: Pointer | None,
    behind: Pointer | None,
) -> None:
    """Sum the gradient and its product with the normalized value; write the results.

    Parameters
    ----------
    ctx, plan
        As in other kernels.
    means : list of Pointer
        Destinations of the two means.
    bias : Pointer, optional
        If given, relu's input is recomputed.
    behind : Pointer, optional
        Output of the gradient through relu.
    """
    meta = ctx.inputs["x"][0]
    types, source = _types_of(ctx), own_source(SOURCE)
    n, n_channels, size = _shape_of(meta)
    team, kernels, parts, threads = _channels_of(meta)
    pairs = partials(plan, team, 2 * compute_bytes(meta.dtype))
    read = [plan.input(slot) for slot in ("x", "saved_mean", "saved_inv_std", "scale")]
    inputs = Struct(*read, bias, _find_input(ctx, plan, "out"), plan.input("out_grad"), behind)
    kind = "kAnew" if bias is not None else "kOutGrad" if behind is None else "kOut"
    template = f"{team.ctype}, {types.images}, {types.parameters}, Source::{kind}"
    expression = f"sums_{kernels}<{template}>"
    team.launch(plan, source, expression, [pairs, inputs, np.int64(n_channels)])
    made = [plan.optional_output(slot) for slot in ("bias_grad", "scale_grad")]
    share = scalar(types.computed, 1 / (n * size))
    arguments: list[Argument] = [*means, *made, pairs, parts, share]
    plan.launch(source, f"means_of_sums<{types.parameters}>", n_channels, threads, arguments)


BATCH_NORM_GRAD: Final = Kernel(_fill_in_grad)
"""The gradients of batch_norm and of the fused operator."""
