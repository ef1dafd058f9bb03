"""Strided copies between tensors, for slices and similar operators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lines import VECTOR_BYTES
from opwright_cuda.launch import UNITS, Argument, LaunchPlan, Pointer
from opwright_cuda.launch.indexing import NARROW, Layout, layout_struct, merge
from opwright_cuda.source import own_source


def unit_of(item_bytes: int, lengths: Iterable[int]) -> int:
    """Return the widest unit, in bytes, that divides all lengths."""
    unit = math.gcd(VECTOR_BYTES, *lengths)
    return max(unit, item_bytes)


def index_type(n: int) -> str:
    """Return ``Int`` for a launch over `n` elements."""
    return "uint32_t" if n < NARROW else "int64_t"


def launch_move(
    plan: LaunchPlan,
    out: Pointer,
    x: Pointer,
    dims: Sequence[int],
    out_strides: Sequence[int],
    x_strides: Sequence[int],
    item_bytes: int,
) -> None:
    """Add the copy of a box.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    out, x : Pointer
        The first element on each side.
    dims : sequence of int
        The dimensions of the box.
    out_strides, x_strides : sequence of int
        Strides along each axis, in elements; they may be negative.
    item_bytes : int
        The size of an element.
    """
    if math.prod(dims) == 0:
        return
    layout = merge(dims, [out_strides, x_strides])
    if not layout.dims:
        layout = Layout((1,), ((1,), (1,)))
    if all(s[-1] == 1 for s in layout.strides):
        outer = [step * item_bytes for s in layout.strides for step in s[:-1]]
        lengths = [layout.dims[-1] * item_bytes, *outer, out.offset, x.offset]
        unit = unit_of(item_bytes, lengths)
        layout = _in_units(layout, unit // item_bytes)
    else:
        unit = item_bytes
    n = math.prod(layout.dims)
    expression = f"move_elements<{UNITS[unit]}, {index_type(n)}>"
    arguments: list[Argument] = [out, x, np.int64(n), layout_struct(layout)]
    plan.launch(own_source("move.cu"), expression, blocks_for(n, plan), THREADS, arguments)


def _in_units(layout: Layout, n_items: int) -> Layout:
    dims = (*layout.dims[:-1], layout.dims[-1] // n_items)
    strides = (tuple(step // n_items for step in s[:-1]) for s in layout.strides)
    return Layout(dims, tuple((*s, 1) for s in strides))
