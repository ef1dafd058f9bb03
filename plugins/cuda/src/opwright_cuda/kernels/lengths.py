"""Lengths of padded sequences, with range checks."""

from __future__ import annotations

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, LaunchPlan, Struct
from opwright_cuda.source import own_source


def describe_lengths(ctx: PrepareContext, plan: LaunchPlan, slot: str = "lengths") -> Struct:
    """Return ``Lengths`` of lengths.h for an optional slot."""
    is_wide = any(meta.dtype == "int64" for meta in ctx.inputs[slot])
    return Struct(plan.optional_input(slot), np.bool_(is_wide))


def launch_check(
    ctx: PrepareContext, plan: LaunchPlan, op_type: str, steps: int, slot: str = "lengths"
) -> None:
    """Add the check that each length of a slot is in [0, steps].

    Parameters
    ----------
    ctx : PrepareContext
        As given to ``prepare``; nothing is added if the slot is absent.
    plan : LaunchPlan
        The plan to extend.
    op_type : str
        The beginning of the error.
    steps : int
        The maximum.
    slot : str
        The input slot.
    """
    for meta in ctx.inputs[slot]:
        wanted = f"{op_type}: {slot} must be in [0, {steps}], got {{value}}"
        (n,) = meta.shape
        arguments: list[Argument] = [plan.input(slot), np.int64(n), np.int64(steps)]
        arguments += [plan.fault(), plan.fault_text(wanted)]
        expression = f"check_lengths<{CTYPES[meta.dtype]}>"
        plan.launch(own_source("sequence.cu"), expression, blocks_for(n, plan), THREADS, arguments)
