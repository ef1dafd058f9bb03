"""The inverse of max pooling, and its gradient."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, count_of
from opwright_cuda.source import own_source


def _launch(
    ctx: PrepareContext, plan: LaunchPlan, name: str, pointers: tuple[Pointer, Pointer], wide: Meta
) -> None:
    """Add the launch of the kernel `name`; `wide` describes the unpooled images."""
    index = ctx.inputs["index"][0]
    is_last = ctx.attrs["data_format"].endswith("C")
    run, first = (index.shape[3], 1) if is_last else (1, 2)
    channels = index.shape[3] if is_last else index.shape[1]
    pixels, out_pixels = (prod(meta.shape[first : first + 2]) for meta in (index, wide))
    n_lines = index.shape[0] * channels
    text = plan.fault_text(f"{ctx.op_type}: index must be in [0, {out_pixels}), got {{value}}")
    numbers = Struct(np.array([n_lines, pixels, out_pixels, max(run, 1)], np.int64))
    arguments: list[Argument] = [*pointers, plan.input("index"), numbers, plan.fault(), text]
    n_threads = n_lines if name == "unpool" else count_of(index)
    blocks, expression = blocks_for(n_threads, plan), f"{name}<{CTYPES[wide.dtype]}>"
    plan.launch(own_source("unpool.cu"), expression, blocks, THREADS, arguments)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write elements to the positions given by their indices."""
    pointers = plan.output("out"), plan.input("x")
    _launch(ctx, plan, "unpool", pointers, ctx.outputs["out"][0])


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Read gradients from the positions given by the elements' indices."""
    if ctx.outputs["x_grad"]:
        pointers = plan.output("x_grad"), plan.input("out_grad")
        _launch(ctx, plan, "unpool_grad", pointers, ctx.inputs["out_grad"][0])


UNPOOL: Final = Kernel(_fill_in)
"""max_unpool2d."""

UNPOOL_GRAD: Final = Kernel(_fill_in_grad)
"""max_unpool2d_grad."""
