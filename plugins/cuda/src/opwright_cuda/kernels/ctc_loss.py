"""ctc_loss and its gradient: one block per row."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lengths import describe_lengths, launch_check
from opwright_cuda.kernels.room import blocks_with_room
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, bytes_of
from opwright_cuda.source import own_source

BLOCKS_AT_ONCE: Final = 2
"""Blocks per multiprocessor, if each stores the results of every step."""

_BYTES: Final = 8
"""Bytes of a class, a link and a logarithm."""


def _describe_rows(ctx: PrepareContext, plan: LaunchPlan) -> Struct:
    """Add the checks of the labels and the lengths; return ``CtcRows`` of ctc_loss.h."""
    (x,), (label,), blank = ctx.inputs["x"], ctx.inputs["label"], ctx.attrs["blank"]
    (n, time, classes), labels = x.shape, label.shape[1]
    launch_check(ctx, plan, ctx.op_type, time)
    launch_check(ctx, plan, ctx.op_type, labels, "label_lengths")
    label_lengths = describe_lengths(ctx, plan, "label_lengths")
    wanted = f"{ctx.op_type}: label must be in [0, {classes}), got {{value}}"
    texts = [wanted, f"{ctx.op_type}: label must not be blank, {{value}}"]
    arguments: list[Argument] = [plan.input("label"), label_lengths]
    arguments += [np.int64(extent) for extent in (n, labels, classes, blank)]
    arguments += [plan.fault(), *map(plan.fault_text, texts)]
    expression = f"check_ctc_labels<{CTYPES[label.dtype]}>"
    blocks = blocks_for(n * labels, plan)
    plan.launch(own_source("ctc_loss.cu"), expression, blocks, THREADS, arguments)
    lengths = [describe_lengths(ctx, plan), label_lengths]
    extents = np.array([n, time, classes, labels, blank], np.int64)
    return Struct(plan.input("x"), plan.input("label"), *lengths, extents)


def _launch(
    ctx: PrepareContext, plan: LaunchPlan, n_rows: int, arguments: list[Argument], most: int | None
) -> None:
    """Add the operator's kernel with scratch memory for the given number of rows of states."""
    (x,), (label,) = ctx.inputs["x"], ctx.inputs["label"]
    labels = label.shape[1]
    n_bytes = n_rows * (2 * labels + 3) * _BYTES
    team = blocks_with_room(plan, x.shape[0], 2 * labels + 1, n_bytes, most)
    expression = f"{ctx.op_type}<{CTYPES[x.dtype]}, {CTYPES[label.dtype]}>"
    team.launch(plan, own_source("ctc_loss.cu"), expression, arguments)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Run the forward pass of each row."""
    rows = _describe_rows(ctx, plan)
    arguments: list[Argument] = [plan.output("out"), rows, np.bool_(ctx.attrs["zero_infinity"])]
    _launch(ctx, plan, 3, arguments, None)


CTC_LOSS: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Run the forward and backward pass of each row."""
    for x_grad in ctx.outputs["x_grad"]:
        (n, time, _), labels = x_grad.shape, ctx.inputs["label"][0].shape[1]
        rows = _describe_rows(ctx, plan)
        plan.fill(plan.output("x_grad"), bytes_of(x_grad))
        most = plan.gpu.multiprocessors * BLOCKS_AT_ONCE
        of_row = (time + 1) * (2 * labels + 3) * _BYTES
        alphas = plan.workspace(max(min(n, most) * of_row, 8))
        read = [plan.output("x_grad"), plan.input("out_grad")]
        _launch(ctx, plan, 5, [*read, rows, alphas], most)


CTC_LOSS_GRAD: Final = Kernel(_fill_in_grad)
