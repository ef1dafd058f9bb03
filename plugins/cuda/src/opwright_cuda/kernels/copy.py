"""Copies: of whole tensors under any shape, and of tensors that are repeated to fill another."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import BITS, ITEM_BYTES
from opwright_cuda.kernels.elementwise import (
    THREADS,
    VECTOR_BYTES,
    blocks_for,
    launch_elementwise,
    operand,
)
from opwright_cuda.launch import Kernel, LaunchPlan, Pointer, bytes_of
from opwright_cuda.source import own_source


def launch_copy(plan: LaunchPlan, out: Pointer, x: Pointer, n_bytes: int) -> None:
    """Add the copy of compact memory; both tensors begin where the device aligns them.

    Nothing is moved where `out` lies on `x`, as planners may have it.
    """
    grid = blocks_for(-(-n_bytes // VECTOR_BYTES), plan)
    plan.launch(own_source("copy.cu"), "copy_bytes", grid, THREADS, [out, x, np.int64(n_bytes)])


def _fill_in_copy(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the elements in their order."""
    launch_copy(plan, plan.output("out"), plan.input("x"), bytes_of(ctx.inputs["x"][0]))


COPY: Final = Kernel(_fill_in_copy)


def _fill_in_expand(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Repeat the elements along the axes that broadcast."""
    x, out = ctx.inputs["x"][0], ctx.outputs["out"][0]
    bits = BITS[ITEM_BYTES[x.dtype]]
    inputs = [operand(plan.input("x"), x, bits)]
    launch_elementwise(plan, f"Identity<{bits}>", operand(plan.output("out"), out, bits), inputs)


EXPAND: Final = Kernel(_fill_in_expand)
