"""triu and tril keep one triangle of each matrix."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import BITS, ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.movement import index_type
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, count_of
from opwright_cuda.launch.indexing import Layout, layout_struct
from opwright_cuda.source import own_source


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the elements of the triangle, and write 0 elsewhere."""
    x = ctx.inputs["x"][0]
    n = count_of(x)
    if n == 0:
        return
    rows, columns = x.shape[-2:]
    dims = layout_struct(Layout((n // rows // columns, rows, columns), ()))
    arguments: list[Argument] = [plan.output("out"), plan.input("x"), np.int64(n), dims]
    arguments.append(np.int64(ctx.attrs["k"]))
    is_upper = "true" if ctx.op_type == "triu" else "false"
    expression = f"triangle<{BITS[ITEM_BYTES[x.dtype]]}, {index_type(n)}, {is_upper}>"
    plan.launch(own_source("triangle.cu"), expression, blocks_for(n, plan), THREADS, arguments)


TRIANGLE: Final = Kernel(_fill_in)
