"""assert_true reports false elements at the next synchronization."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, count_of
from opwright_cuda.source import own_source


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Check every element; later operators still run, until the host synchronizes."""
    n = count_of(ctx.inputs["condition"][0])
    if n == 0:
        return
    what = ctx.attrs["message"] or "condition must be true"
    text = plan.fault_text(f"assert_true: {what}: of {n} elements number {{value}} is false")
    arguments: list[Argument] = [plan.input("condition"), np.int64(n), plan.fault(), text]
    plan.launch(own_source("watching.cu"), "assert_true", blocks_for(n, plan), THREADS, arguments)


ASSERT_TRUE: Final = Kernel(_fill_in)
