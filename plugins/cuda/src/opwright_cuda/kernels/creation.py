"""Tensors filled with one value."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import dtype_to_numpy
from opwright_cuda.dtypes import BITS, ITEM_BYTES
from opwright_cuda.kernels.elementwise import launch_elementwise, operand
from opwright_cuda.launch import Kernel, LaunchPlan, Struct, bytes_of


def item_of(dtype: str, value: float) -> Any:
    """Return the bits of a value as an unsigned integer of the dtype's size.

    The shape rule has checked that an integer or bool can represent the value.
    """
    with np.errstate(over="ignore"):  # a large value becomes infinity in a narrower dtype
        made = np.array(value).astype(dtype_to_numpy(dtype))
    return made.view(f"u{ITEM_BYTES[dtype]}")[()]


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Fill the output with one value."""
    meta = ctx.outputs["out"][0]
    item = item_of(meta.dtype, ctx.attrs["value"])
    if len(set(item.tobytes())) == 1:
        plan.fill(plan.output("out"), bytes_of(meta), item.tobytes()[0])
        return
    bits = BITS[ITEM_BYTES[meta.dtype]]
    out = operand(plan.output("out"), meta, bits)
    launch_elementwise(plan, f"Constant<{bits}>", out, [], Struct(item))


FILL: Final = Kernel(_fill_in)
