"""one_hot writes class ids as vectors with a single 1."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import BITS, CTYPES, ITEM_BYTES
from opwright_cuda.kernels.creation import item_of
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.movement import index_type
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, count_of
from opwright_cuda.launch.indexing import Layout, layout_struct
from opwright_cuda.source import own_source


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write every element; an id out of range is reported."""
    x, depth = ctx.inputs["x"][0], ctx.attrs["depth"]
    ids = count_of(x)
    n = ids * depth
    if n == 0:
        return
    text = plan.fault_text(f"one_hot: x must be in [0, {depth}), got {{value}}")
    layout = layout_struct(Layout((ids, depth), ()))
    arguments: list[Argument] = [plan.output("out"), plan.input("x"), np.int64(n), layout]
    dtype = ctx.outputs["out"][0].dtype
    arguments += [plan.fault(), text, item_of(dtype, 1.0)]
    expression = f"one_hot<{BITS[ITEM_BYTES[dtype]]}, {CTYPES[x.dtype]}, {index_type(n)}>"
    plan.launch(own_source("one_hot.cu"), expression, blocks_for(n, plan), THREADS, arguments)


ONE_HOT: Final = Kernel(_fill_in)
