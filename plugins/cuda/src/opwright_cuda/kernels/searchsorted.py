"""Insertion positions in a sorted vector."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, count_of
from opwright_cuda.source import own_source


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Search each value by bisection."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    n = count_of(out)
    row = max(out.shape[-1] if ctx.attrs["rows"] else n, 1)  # values per row of x
    arguments: list[Argument] = [plan.output("out"), plan.input("x"), plan.input("values")]
    arguments += [np.int64(x.shape[-1]), np.int64(row), np.int64(n)]
    arguments.append(np.bool_(ctx.attrs["side"] == "right"))
    expression = f"searchsorted<{CTYPES[x.dtype]}, {CTYPES[ctx.attrs['dtype']]}>"
    plan.launch(own_source("searchsorted.cu"), expression, blocks_for(n, plan), THREADS, arguments)


SEARCHSORTED: Final = Kernel(_fill_in)
"""searchsorted."""
