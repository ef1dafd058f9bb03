"""Strided slices that are read from a tensor or written to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import ITEM_BYTES
from opwright_cuda.kernels.movement import launch_move
from opwright_cuda.launch import Kernel, LaunchPlan, Pointer, bytes_of
from opwright_cuda.launch.indexing import compact_strides


class _Box(NamedTuple):
    """A box in a compact tensor, with its dimensions, first element and strides, in elements."""

    dims: list[int]
    first: int
    strides: list[int]


def _box(shape: Sequence[int], attrs: dict[str, Any]) -> _Box:
    dims, strides, first = list(shape), list(compact_strides(shape)), 0
    axes, steps = attrs["axes"], attrs["steps"] or [1] * len(attrs["axes"])
    for axis, start, end, step in zip(axes, attrs["starts"], attrs["ends"], steps, strict=True):
        places = range(*slice(start, end, step).indices(shape[axis]))
        first += places.start * strides[axis]
        dims[axis] = len(places)
        strides[axis] *= step
    return _Box(dims, first, strides)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy the box."""
    x = ctx.inputs["x"][0]
    item_bytes = ITEM_BYTES[x.dtype]
    box = _box(x.shape, ctx.attrs)
    begin = plan.input("x") + box.first * item_bytes
    compact = compact_strides(box.dims)
    launch_move(plan, plan.output("out"), begin, box.dims, compact, box.strides, item_bytes)


def _write(plan: LaunchPlan, out: Pointer, given: Pointer, box: _Box, item_bytes: int) -> None:
    begin, compact = out + box.first * item_bytes, compact_strides(box.dims)
    launch_move(plan, begin, given, box.dims, box.strides, compact, item_bytes)


SLICE: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write the gradient into the box, and 0 elsewhere."""
    if not ctx.outputs["x_grad"]:
        return
    x_grad = ctx.outputs["x_grad"][0]
    item_bytes = ITEM_BYTES[x_grad.dtype]
    box = _box(x_grad.shape, ctx.attrs)
    if math.prod(box.dims) < math.prod(x_grad.shape):
        plan.fill(plan.output("x_grad"), bytes_of(x_grad))
    _write(plan, plan.output("x_grad"), plan.input("out_grad"), box, item_bytes)


SLICE_GRAD: Final = Kernel(_fill_in_grad)


def _fill_in_scatter(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy x, then write the updates into the box."""
    x = ctx.inputs["x"][0]
    item_bytes = ITEM_BYTES[x.dtype]
    box = _box(x.shape, ctx.attrs)
    plan.copy(plan.output("out"), plan.input("x"), bytes_of(x))
    _write(plan, plan.output("out"), plan.input("updates"), box, item_bytes)


SLICE_SCATTER: Final = Kernel(_fill_in_scatter)
