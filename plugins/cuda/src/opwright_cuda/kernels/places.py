"""Computes flat indices from index tensors, the first step of gather_nd, scatter and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import BITS, CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.movement import index_type
from opwright_cuda.launch import Argument, LaunchPlan, Pointer, Struct, count_of
from opwright_cuda.launch.indexing import (
    Layout,
    broadcast_strides,
    compact_strides,
    layout_struct,
    merge,
)
from opwright_cuda.source import own_source

MAX_INDEXED: Final = 32
"""``kMaxIndexed`` of places.cu."""


class Places(NamedTuple):
    """Flat indices into a tensor, computed when the plan runs.

    Attributes
    ----------
    pointer : Pointer
        The flat indices.
    meta : Meta
        Their shape, int64 [n].
    """

    pointer: Pointer
    meta: Meta


def _workspace(plan: LaunchPlan, n: int) -> Places:
    return Places(plan.workspace(8 * n), Meta((n,), "int64"))


def launch_row_places(ctx: PrepareContext, plan: LaunchPlan, x: Meta, row: int) -> Places:
    """Add the computation of flat indices from the slot ``index``, for rows of `row` elements.

    If `row` is 1, the results are row indices.
    """
    (index,) = ctx.inputs["index"]
    k = index.shape[-1]
    if k > MAX_INDEXED:
        ctx.refuse(f"index has {k} axes, at most {MAX_INDEXED} are supported")
    n = math.prod(index.shape[:-1])
    found = _workspace(plan, n * row)
    op_type, rest = ctx.op_type.removesuffix("_grad"), [0] * (MAX_INDEXED - k)
    texts = [
        plan.fault_text(f"{op_type}: index[..., {axis}] must be in [{-dim}, {dim}), got {{value}}")
        for axis, dim in enumerate(x.shape[:k])
    ]
    dims = np.array([*x.shape[:k], *rest], np.int64)
    axes = Struct(dims, np.array([*texts, *rest], np.int32), np.int32(k))
    arguments: list[Argument] = [found.pointer, plan.input("index"), np.int64(n), np.int64(row)]
    arguments += [axes, plan.fault()]
    expression = f"row_places<{CTYPES[index.dtype]}>"
    plan.launch(own_source("places.cu"), expression, blocks_for(n * row, plan), THREADS, arguments)
    return found


class _Along(NamedTuple):
    """Elements of x at indices along an axis."""

    layout: Layout
    n_positions: int
    step: int


def _along(x: Meta, index: Meta, dims: Sequence[int], axis: int, repeats: bool) -> _Along:
    """Return the strides of x for `dims` elements, with broadcasting if `repeats`."""
    dims, shape = dims or (1,), x.shape or (1,)
    axis %= len(dims)
    compact = compact_strides(shape)
    strides = list(broadcast_strides(shape, dims) if repeats else compact)
    strides[axis] = 0
    layout = merge(dims, [strides, broadcast_strides(index.shape, dims)])
    if not layout.dims:
        layout = Layout((1,), ((0,), (0,)))
    return _Along(layout, shape[axis], compact[axis])


def _report(ctx: PrepareContext, plan: LaunchPlan, along: _Along) -> list[Argument]:
    op_type, count = ctx.op_type.removesuffix("_grad"), along.n_positions
    text = f"{op_type}: index must be in [{-count}, {count}), got {{value}}"
    numbers = [np.int64(count), np.int64(along.step)]
    return [*numbers, plan.fault(), plan.fault_text(text)]


def launch_element_places(
    ctx: PrepareContext, plan: LaunchPlan, x: Meta, dims: Sequence[int], repeats: bool
) -> Places:
    """Add the computation of flat indices into x from the slot ``index``, for the shape `dims`."""
    (index,) = ctx.inputs["index"]
    n = math.prod(dims)
    found = _workspace(plan, n)
    if n == 0:
        return found
    along = _along(x, index, dims, ctx.attrs["axis"], repeats)
    arguments: list[Argument] = [found.pointer, plan.input("index"), np.int64(n)]
    arguments += [layout_struct(along.layout), *_report(ctx, plan, along)]
    expression = f"element_places<{CTYPES[index.dtype]}, {index_type(n)}>"
    plan.launch(own_source("places.cu"), expression, blocks_for(n, plan), THREADS, arguments)
    return found


def launch_take(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Add the copy of the elements at the slot ``index`` along an axis."""
    (x,), (index,), (out,) = ctx.inputs["x"], ctx.inputs["index"], ctx.outputs["out"]
    n = count_of(out)
    if n == 0:
        return
    along = _along(x, index, out.shape, ctx.attrs["axis"], repeats=True)
    arguments: list[Argument] = [plan.output("out"), plan.input("x"), plan.input("index")]
    arguments += [np.int64(n), layout_struct(along.layout), *_report(ctx, plan, along)]
    types = f"{BITS[ITEM_BYTES[x.dtype]]}, {CTYPES[index.dtype]}, {index_type(n)}"
    source = own_source("places.cu")
    plan.launch(source, f"take_along_axis<{types}>", blocks_for(n, plan), THREADS, arguments)
