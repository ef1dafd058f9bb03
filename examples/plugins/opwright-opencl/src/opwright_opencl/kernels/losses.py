"""Cross entropy of class ids.

The device detects invalid ids, and they are reported before any update, so the host waits for each
of these kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright.kernel import PrepareContext
from opwright_opencl.shapes import Lines, lines_along
from opwright_opencl.work import NO_FAULT, Fault, Kernel, Labels, Local, Work, count_of, group_for


def _check_labels(ctx: PrepareContext, work: Work, lines: Lines) -> str:
    """Register the class ids to check; return the kernel name suffix for their dtype."""
    if ctx.attrs["soft_label"]:
        ctx.refuse("labels must be class ids, got distributions")
    if lines.n_lines >= NO_FAULT:
        ctx.refuse(f"there must be fewer than {NO_FAULT} class ids, got {lines.n_lines}")
    dtype = ctx.inputs["label"][0].dtype
    who = ctx.op_type.removesuffix("_grad")
    work.labels = Labels(work.slot("label"), dtype, lines.length, who)
    return "of_int" if dtype == "int32" else "of_long"


def _slots(work: Work, *names: str) -> list[Any]:
    return [*map(work.slot, names)]


def _cross_entropy(ctx: PrepareContext, work: Work) -> None:
    lines = lines_along(ctx.inputs["x"][0].shape, -1)
    name = f"cross_entropy_{_check_labels(ctx, work, lines)}"
    slots, epsilon = _slots(work, "x", "label", "out"), work.number(ctx.attrs["epsilon"])
    work.launch_each(name, lines.n_lines, *slots, Fault(), np.uint64(lines.length), epsilon)


def _cross_entropy_grad(ctx: PrepareContext, work: Work) -> None:
    if ctx.outputs["label_grad"]:
        ctx.refuse("the gradient of labels is unsupported")
    x = ctx.inputs["x"][0]
    lines = lines_along(x.shape, -1)
    if lines.length == 0:
        ctx.refuse("there must be a class, since no work-item checks ids of 0 classes")
    name = f"cross_entropy_grad_{_check_labels(ctx, work, lines)}"
    slots = _slots(work, "x", "label", "out_grad", "x_grad")
    epsilon = work.number(ctx.attrs["epsilon"])
    work.launch_each(name, count_of(x), *slots, Fault(), np.uint64(lines.length), epsilon)


def _softmax_loss(ctx: PrepareContext, work: Work) -> None:
    lines = lines_along(ctx.inputs["logits"][0].shape, ctx.attrs["axis"])
    name = f"softmax_loss_{_check_labels(ctx, work, lines)}"
    items = group_for(lines.length, work.device.largest_group)
    arguments = [*_slots(work, "logits", "label", "out", "softmax"), Fault()]
    arguments += [np.uint64(lines.length), np.uint64(lines.inner)]
    arguments += [np.int64(ctx.attrs["ignore_index"]), Local(items)]
    work.launch(name, (lines.n_lines,), (items,), *arguments)


def _softmax_loss_grad(ctx: PrepareContext, work: Work) -> None:
    softmax = ctx.inputs["softmax"][0]
    lines = lines_along(softmax.shape, ctx.attrs["axis"])
    name = f"softmax_loss_grad_{_check_labels(ctx, work, lines)}"
    arguments = [*_slots(work, "label", "softmax", "out_grad", "logits_grad"), Fault()]
    arguments += [np.uint64(lines.length), np.uint64(lines.inner)]
    ignored = np.int64(ctx.attrs["ignore_index"])
    work.launch_each(name, count_of(softmax), *arguments, ignored)


CROSS_ENTROPY, CROSS_ENTROPY_GRAD = Kernel(_cross_entropy), Kernel(_cross_entropy_grad)
SOFTMAX_WITH_CROSS_ENTROPY = Kernel(_softmax_loss)
SOFTMAX_WITH_CROSS_ENTROPY_GRAD = Kernel(_softmax_loss_grad)
