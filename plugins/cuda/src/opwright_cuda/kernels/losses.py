"""Losses and accuracy. A label out of range is a fault, and its row is ignored."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, compute_type
from opwright_cuda.kernels.elementwise import (
    THREADS,
    blocks_for,
    launch_elementwise,
    operand,
)
from opwright_cuda.kernels.lines import (
    Lines,
    Team,
    lines_along,
    streamed,
    team_to_keep,
    team_to_sum,
)
from opwright_cuda.kernels.reduction import scalar
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.source import own_source


def describe_labels(
    ctx: PrepareContext, plan: LaunchPlan, n_classes: int, ignored: int | None = None
) -> Struct:
    """Return ``Labels`` of labels.h for the slot ``label``: ids below `n_classes`, or `ignored`."""
    source = ctx.attrs.get("source", ctx.op_type)
    text = plan.fault_text(f"{source}: label must be in [0, {n_classes}), got {{value}}")
    return Struct(
        plan.input("label"),
        plan.fault(),
        np.int64(n_classes),
        np.int64(ignored or 0),
        np.int32(ctx.inputs["label"][0].dtype == "int64"),
        np.int32(ignored is not None),
        text,
    )


def _launch(
    plan: LaunchPlan, team: Team, kernel: str, meta: Meta, arguments: list[Argument]
) -> None:
    team.launch_typed(plan, own_source("losses.cu"), kernel, meta.dtype, arguments)


def _fill_in_softmax_loss(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the loss of scores, and their softmax."""
    x = ctx.inputs["logits"][0]
    lines = lines_along(x.shape, ctx.attrs["axis"])
    team = team_to_keep(lines, x.dtype)
    softmax = plan.optional_output("softmax")
    outputs = [plan.output("out"), softmax, plan.input("logits")]
    arguments: list[Argument]
    if ctx.attrs["soft_label"]:
        arguments = [*outputs, plan.input("label")]
        _launch(plan, team, "soft_loss_lines", x, arguments)
        return
    labels = describe_labels(ctx, plan, lines.length, ctx.attrs["ignore_index"])
    if softmax is not None:
        _launch(plan, team, "class_loss_lines", x, [*outputs, labels])
        return
    team = team_to_sum(lines, x.dtype)
    arguments = [plan.output("out"), plan.input("logits"), labels]
    _launch(plan, team, "class_loss_alone_lines", x, arguments)


SOFTMAX_LOSS: Final = Kernel(_fill_in_softmax_loss)


def _fill_in_softmax_loss_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradient of scores from their softmax."""
    if not ctx.outputs["logits_grad"]:
        return
    meta = ctx.inputs["softmax"][0]
    if math.prod(meta.shape) == 0:
        return
    lines = lines_along(meta.shape, ctx.attrs["axis"])
    made, softmax = plan.output("logits_grad"), plan.input("softmax")
    if ctx.attrs["soft_label"]:
        team = team_to_keep(lines, meta.dtype, n_arrays=2)
        arguments: list[Argument] = [made, softmax, plan.input("label"), plan.input("out_grad")]
        source = own_source("softmax.cu")
        team.launch_typed(plan, source, "soft_label_grad_lines", meta.dtype, arguments)
        return
    labels = describe_labels(ctx, plan, lines.length, ctx.attrs["ignore_index"])
    team = streamed(lines, meta.dtype, may_split=True)
    arguments = [made, softmax, labels, plan.input("out_grad")]
    _launch(plan, team, "class_loss_grad_lines", meta, arguments)


SOFTMAX_LOSS_GRAD: Final = Kernel(_fill_in_softmax_loss_grad)


def _fill_in_softmax_cross_entropy(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the loss of scores and their gradient together."""
    x = ctx.inputs["logits"][0]
    lines = lines_along(x.shape, -1)
    ctype = compute_type(x.dtype)
    arguments: list[Argument] = [
        plan.output("logits_grad"),
        plan.optional_output("loss"),
        plan.optional_output("softmax"),
        plan.input("logits"),
        describe_labels(ctx, plan, lines.length, ctx.attrs["ignore_index"]),
        scalar(ctype, ctx.attrs["loss_grad"]),
        scalar(ctype, ctx.attrs["epsilon"]),
    ]
    team = team_to_keep(lines, x.dtype)
    _launch(plan, team, "class_loss_and_grad_lines", x, arguments)


SOFTMAX_CROSS_ENTROPY: Final = Kernel(_fill_in_softmax_cross_entropy)
"""softmax_cross_entropy, which only passes create."""


def _fill_in_cross_entropy(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the loss of probabilities."""
    x = ctx.inputs["x"][0]
    lines = lines_along(x.shape, -1)
    epsilon = scalar(compute_type(x.dtype), ctx.attrs["epsilon"])
    out, read = plan.output("out"), plan.input("x")
    if ctx.attrs["soft_label"]:
        team = streamed(lines, x.dtype)
        arguments: list[Argument] = [out, read, plan.input("label"), epsilon]
        _launch(plan, team, "cross_entropy_soft_lines", x, arguments)
        return
    labels = describe_labels(ctx, plan, lines.length)
    expression = f"cross_entropy_ids<{CTYPES[x.dtype]}>"
    arguments = [out, read, labels, np.int64(lines.outer), epsilon]
    grid = blocks_for(lines.outer, plan)
    plan.launch(own_source("losses.cu"), expression, grid, THREADS, arguments)


CROSS_ENTROPY: Final = Kernel(_fill_in_cross_entropy)


def _fill_in_cross_entropy_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of probabilities and of distributions."""
    x = ctx.inputs["x"][0]
    wanted = [slot for slot in ("x_grad", "label_grad") if ctx.outputs[slot]]
    if not wanted or math.prod(x.shape) == 0:
        return
    lines = lines_along(x.shape, -1)
    team = streamed(lines, x.dtype, may_split=True)
    epsilon = scalar(compute_type(x.dtype), ctx.attrs["epsilon"])
    x_grad, read = plan.optional_output("x_grad"), plan.input("x")
    out_grad = plan.input("out_grad")
    if ctx.attrs["soft_label"]:
        label_grad, label = plan.optional_output("label_grad"), plan.input("label")
        arguments: list[Argument] = [x_grad, label_grad, read, label, out_grad, epsilon]
        _launch(plan, team, "cross_entropy_soft_grad_lines", x, arguments)
        return
    labels = describe_labels(ctx, plan, lines.length)
    arguments = [x_grad, read, labels, out_grad, epsilon]
    _launch(plan, team, "cross_entropy_ids_grad_lines", x, arguments)


CROSS_ENTROPY_GRAD: Final = Kernel(_fill_in_cross_entropy_grad)


def _fill_in_accuracy(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Count the rows whose label is among the best classes."""
    x = ctx.inputs["x"][0]
    lines = lines_along(x.shape, 1)
    is_right = plan.workspace(max(lines.outer, 1))
    labels = describe_labels(ctx, plan, lines.length)
    team = streamed(lines, x.dtype)
    arguments: list[Argument] = [is_right, plan.input("x"), labels, np.int64(ctx.attrs["k"])]
    _launch(plan, team, "is_right_lines", x, arguments)
    made = [plan.output(slot) for slot in ("accuracy", "correct", "total")]
    arguments = [*made, is_right, np.int64(lines.outer)]
    plan.launch(own_source("losses.cu"), "count_right<float>", 1, THREADS, arguments)


ACCURACY: Final = Kernel(_fill_in_accuracy)


def _fill_in_nll(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Select the log-probability of each line's class."""
    x = ctx.inputs["x"][0]
    lines = lines_along(x.shape, ctx.attrs["axis"])
    n = lines.outer * lines.inner
    if n > 0:
        pointers = plan.output("out"), plan.input("x")
        _launch_nll(ctx, plan, f"pick_losses<{CTYPES[x.dtype]}>", lines, n, pointers)


def _launch_nll(
    ctx: PrepareContext,
    plan: LaunchPlan,
    expression: str,
    lines: Lines,
    n: int,
    pointers: tuple[Pointer, Pointer],
) -> None:
    labels = describe_labels(ctx, plan, lines.length, ctx.attrs["ignore_index"])
    arguments: list[Argument] = [*pointers, labels, np.int64(n), np.int64(lines.inner)]
    plan.launch(own_source("nll.cu"), expression, blocks_for(n, plan), THREADS, arguments)


NLL: Final = Kernel(_fill_in_nll)


def _fill_in_nll_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write each line's gradient to its class."""
    x = ctx.inputs["x"][0]
    n = math.prod(x.shape)
    if n == 0 or not ctx.outputs["x_grad"]:
        return
    lines = lines_along(x.shape, ctx.attrs["axis"])
    pointers = plan.output("x_grad"), plan.input("out_grad")
    _launch_nll(ctx, plan, f"spread_losses<{CTYPES[x.dtype]}>", lines, n, pointers)


NLL_GRAD: Final = Kernel(_fill_in_nll_grad)


_LOSSES: Final = {"mse": "SquaredError", "sigmoid_cross_entropy_with_logits": "SigmoidLoss"}


def _fill_in_elements(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the loss of every element."""
    x, label, out = ctx.inputs["x"][0], ctx.inputs["label"][0], ctx.outputs["out"][0]
    inputs = [operand(plan.input("x"), x), operand(plan.input("label"), label)]
    functor = f"{_LOSSES[ctx.op_type]}<{compute_type(x.dtype)}>"
    launch_elementwise(plan, functor, operand(plan.output("out"), out), inputs)


ELEMENTS: Final = Kernel(_fill_in_elements)


def _fill_in_elements_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of x and of the label."""
    meta = ctx.inputs["x"][0]
    ctype = compute_type(meta.dtype)
    x, label, grad = (
        operand(plan.input(slot), ctx.inputs[slot][0]) for slot in ("x", "label", "out_grad")
    )
    for slot, factor in (("x_grad", 2.0), ("label_grad", -2.0)):
        if not ctx.outputs[slot]:
            continue
        out = operand(plan.output(slot), ctx.outputs[slot][0])
        if ctx.op_type == "mse_grad":
            members = Struct(scalar(ctype, factor))
            functor = f"SquaredErrorGrad<{ctype}>"
            launch_elementwise(plan, functor, out, [x, label, grad], members)
        elif slot == "x_grad":
            launch_elementwise(plan, f"SigmoidLossGrad<{ctype}>", out, [x, label, grad])
        else:
            launch_elementwise(plan, f"SigmoidLossLabelGrad<{ctype}>", out, [x, grad])


ELEMENTS_GRAD: Final = Kernel(_fill_in_elements_grad)
