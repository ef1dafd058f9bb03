"""The sum of several tensors, for accumulated gradients."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lines import VECTOR_BYTES
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, count_of
from opwright_cuda.source import own_source

MAX_TERMS: Final = 32
"""``kMaxTerms`` of add_n.cu."""


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Add the terms in list order; 16-bit sums are rounded once per 32 terms."""
    meta = ctx.outputs["out"][0]
    n, out = count_of(meta), plan.output("out")
    width = VECTOR_BYTES // ITEM_BYTES[meta.dtype]
    if n < 4 * width * THREADS:
        width = 1
    expression = f"add_n<{CTYPES[meta.dtype]}, {width}>"
    terms = [plan.input("x", i) for i in range(len(ctx.inputs["x"]))]
    done = 0
    while done < len(terms):
        first = [out] if done else []
        some = [*first, *terms[done : done + MAX_TERMS - len(first)]]
        done += len(some) - len(first)
        table = Struct(*some, *[None] * (MAX_TERMS - len(some)), np.int32(len(some)))
        arguments: list[Argument] = [out, table, np.int64(n)]
        grid = blocks_for(-(-n // width), plan)
        plan.launch(own_source("add_n.cu"), expression, grid, THREADS, arguments)


ADD_N: Final = Kernel(_fill_in)
