"""Lengths of padded sequences: what reports those that are out of range."""

from __future__ import annotations

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, LaunchPlan
from opwright_cuda.source import own_source


def launch_check(ctx: PrepareContext, plan: LaunchPlan, op_type: str, steps: int) -> None:
    """Add the check that each element of the slot `lengths` is in [0, steps].

    Parameters
    ----------
    ctx : PrepareContext
        As given to ``prepare``; nothing is added where its slot `lengths` is absent.
    plan : LaunchPlan
        Where it is added.
    op_type : str
        With which the error begins.
    steps : int
        The most.
    """
    for meta in ctx.inputs["lengths"]:
        wanted = f"{op_type}: lengths must be in [0, {steps}], got {{value}}"
        (n,) = meta.shape
        arguments: list[Argument] = [plan.input("lengths"), np.int64(n), np.int64(steps)]
        arguments += [plan.fault(), plan.fault_text(wanted)]
        expression = f"check_lengths<{CTYPES[meta.dtype]}>"
        plan.launch(own_source("sequence.cu"), expression, blocks_for(n, plan), THREADS, arguments)
