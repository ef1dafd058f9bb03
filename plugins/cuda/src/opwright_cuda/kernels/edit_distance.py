"""edit_distance: one block per pair of sequences."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.lengths import describe_lengths, launch_check
from opwright_cuda.kernels.room import blocks_with_room
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct
from opwright_cuda.source import own_source

_MOST_STEPS: Final = 2**30 - 1


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Count the edits of each pair."""
    (x,), (label,) = ctx.inputs["x"], ctx.inputs["label"]
    (n, steps), label_steps = x.shape, label.shape[1]
    if max(steps, label_steps) > _MOST_STEPS:
        ctx.refuse(f"sequences must have fewer than 2**30 steps, got {max(steps, label_steps)}")
    launch_check(ctx, plan, ctx.op_type, steps)
    launch_check(ctx, plan, ctx.op_type, label_steps, "label_lengths")
    pairs = Struct(
        plan.input("x"),
        plan.input("label"),
        describe_lengths(ctx, plan),
        describe_lengths(ctx, plan, "label_lengths"),
        np.array([n, steps, label_steps], np.int64),
    )
    team = blocks_with_room(plan, n, min(steps, label_steps) + 1, 3 * 4 * (label_steps + 1))
    arguments: list[Argument] = [plan.output("out"), pairs, np.bool_(ctx.attrs["normalized"])]
    expression = f"edit_distance<{CTYPES[x.dtype]}>"
    team.launch(plan, own_source("edit_distance.cu"), expression, arguments)


EDIT_DISTANCE: Final = Kernel(_fill_in)
