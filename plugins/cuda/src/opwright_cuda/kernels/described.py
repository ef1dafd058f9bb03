"""Tensors described by attributes: constant, arange, linspace and eye."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import dtype_to_numpy, is_float
from opwright_cuda.dtypes import BITS, CTYPES, ITEM_BYTES
from opwright_cuda.kernels.creation import item_of
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.movement import index_type
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, count_of
from opwright_cuda.launch.indexing import Layout, layout_struct
from opwright_cuda.source import own_source

CHUNK_WORDS: Final = 256
"""``kChunkWords`` of described.cu: words of a constant in one launch."""


def _fill_in_constant(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write the elements, which are passed as launch parameters."""
    (out,) = ctx.outputs["out"]
    with np.errstate(over="ignore"):  # a large value becomes infinity in a narrower dtype
        items = np.array(ctx.attrs["values"], np.float64).astype(dtype_to_numpy(out.dtype))
    data = items.tobytes()
    step = 8 * CHUNK_WORDS
    for begin in range(0, len(data), step):
        chunk = data[begin : begin + step]
        words = np.frombuffer(chunk.ljust(step, b"\0"), np.uint64)
        n = np.int32(len(chunk))
        arguments: list[Argument] = [plan.output("out") + begin, Struct(words), n]
        grid = -(-len(chunk) // THREADS)
        plan.launch(own_source("described.cu"), "write_bytes", grid, THREADS, arguments)


CONSTANT: Final = Kernel(_fill_in_constant)


def _fill_in_steps(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write evenly spaced numbers, for arange and linspace."""
    (out,) = ctx.outputs["out"]
    n, start, stop = count_of(out), ctx.attrs["start"], ctx.attrs["stop"]
    is_closed = "num" in ctx.attrs
    step = (stop - start) / max(n - 1, 1) if is_closed else ctx.attrs["step"]
    arguments: list[Argument] = [plan.output("out"), np.int64(n)]
    source = own_source("described.cu", ("-fmad=false",))
    if is_float(out.dtype):
        arguments += [np.float64(number) for number in (start, step, stop)]
        arguments.append(np.bool_(is_closed and n > 1))
        expression = f"write_steps<{CTYPES[out.dtype]}>"
    else:
        arguments += [np.uint64(int(number) % 2**64) for number in (start, step)]
        expression = f"write_whole_steps<{CTYPES[out.dtype]}>"
    plan.launch(source, expression, blocks_for(n, plan), THREADS, arguments)


STEPS: Final = Kernel(_fill_in_steps)


def _fill_in_eye(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write 1 to the elements on the diagonal, and 0 to all others."""
    (out,) = ctx.outputs["out"]
    n = count_of(out)
    if n == 0:
        return
    dims = layout_struct(Layout(tuple(out.shape), ()))
    one = item_of(out.dtype, 1.0)
    arguments: list[Argument] = [plan.output("out"), np.int64(n), dims, np.int64(ctx.attrs["k"])]
    arguments.append(one)
    expression = f"eye<{BITS[ITEM_BYTES[out.dtype]]}, {index_type(n)}>"
    plan.launch(own_source("described.cu"), expression, blocks_for(n, plan), THREADS, arguments)


EYE: Final = Kernel(_fill_in_eye)
