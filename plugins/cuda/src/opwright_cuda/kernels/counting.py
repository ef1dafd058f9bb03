"""bincount and histogram count elements by value or by bin."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.add_slices import LookUp, Slices, launch_add_slices
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, count_of
from opwright_cuda.source import own_source

MOST_SHARED: Final = 8192
"""Maximum number of kinds that a block counts in shared memory, in 32 KiB."""


def _launch_count(
    plan: LaunchPlan,
    expression: str,
    n: int,
    n_kinds: int,
    arguments: list[Argument],
    *last: Argument,
) -> None:
    """Add a kernel of counting.cu, which writes the counts of n elements to the slot ``out``."""
    plan.fill(plan.output("out"), 8 * n_kinds)
    is_shared = n_kinds <= MOST_SHARED
    blocks = blocks_for(n, plan)
    if is_shared:  # each block adds all of its counts, so it needs more elements than kinds
        blocks = min(blocks, -(-n // (4 * n_kinds)))
    given = [
        plan.output("out"),
        plan.input("x"),
        np.int64(n),
        *arguments,
        np.bool_(is_shared),
        *last,
    ]
    shared_bytes = 4 * n_kinds if is_shared else 0
    source = own_source("counting.cu", ("-fmad=false",))
    plan.launch(source, expression, blocks, THREADS, given, shared_bytes)


def _fill_in_bincount(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Count each id, or sum its weights in order."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    length = ctx.attrs["length"]
    text = f"{ctx.op_type}: x must be in [0, {length}), got {{value}}"
    if ctx.inputs["weights"]:
        slices = Slices(plan.input("weights"), plan.input("x"), x)
        look_up = LookUp(1, length, 1, 0, -1)
        launch_add_slices(plan, plan.output("out"), out, slices, look_up, text, "double")
        return
    arguments: list[Argument] = [np.int64(length)]
    report: list[Argument] = [plan.fault(), plan.fault_text(text)]
    expression = f"bincount<{CTYPES[x.dtype]}>"
    _launch_count(plan, expression, count_of(x), length, arguments, *report)


BINCOUNT: Final = Kernel(_fill_in_bincount)


def _fill_in_histogram(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Count the elements of each bin."""
    (x,), n_bins = ctx.inputs["x"], ctx.attrs["bins"]
    ends = (np.float64(ctx.attrs[name]) for name in ("min", "max"))
    bins = Struct(*ends, np.int64(n_bins))
    _launch_count(plan, f"histogram<{CTYPES[x.dtype]}>", count_of(x), n_bins, [bins])


HISTOGRAM: Final = Kernel(_fill_in_histogram)
