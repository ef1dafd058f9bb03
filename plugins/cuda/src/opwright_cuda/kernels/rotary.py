"""rotary_embedding and its gradient, which is the inverse rotation."""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct
from opwright_cuda.source import own_source


def _fill_in(ctx: PrepareContext, plan: LaunchPlan, sign: int) -> None:
    """Rotate all pairs."""
    source, result = ("x", "out") if sign > 0 else ("out_grad", "x_grad")
    x, cos = ctx.inputs[source][0], ctx.inputs["cos"][0]
    n = math.prod(x.shape)
    if n == 0:
        return
    positions, half = cos.shape
    index = ctx.inputs["index"]
    shares = not index or len(index[0].shape) == 1
    outer = math.prod(x.shape[:-2])
    repeats = 1 if shares else outer // x.shape[0]
    numbers = (n, x.shape[-2], x.shape[-1], half, positions, repeats)
    flags = (shares, ctx.attrs["interleaved"], sign)
    shape = Struct(*map(np.int64, numbers), *map(np.int32, flags))
    arguments: list[Argument] = [plan.output(result), plan.input(source)]
    arguments += [plan.input("cos"), plan.input("sin"), plan.optional_input("index"), shape]
    text = f"rotary_embedding: index must be in [0, {positions}), got {{value}}"
    arguments += [plan.fault(), plan.fault_text(text)]
    ctype = CTYPES[index[0].dtype] if index else "int64_t"
    expression = f"rotate<{CTYPES[x.dtype]}, {ctype}>"
    plan.launch(own_source("rotary.cu"), expression, blocks_for(n, plan), THREADS, arguments)


ROTARY: Final = Kernel(partial(_fill_in, sign=1))
ROTARY_GRAD: Final = Kernel(partial(_fill_in, sign=-1))
