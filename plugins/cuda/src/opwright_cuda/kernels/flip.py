"""flip and roll: permutations of elements along axes."""

from __future__ import annotations

import itertools
import math
from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import ITEM_BYTES
from opwright_cuda.kernels.movement import launch_move
from opwright_cuda.launch import Kernel, LaunchPlan, count_of
from opwright_cuda.launch.indexing import compact_strides


def _fill_in_flip(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Read backward along the axes."""
    x = ctx.inputs["x"][0]
    if count_of(x) == 0:
        return
    rank, item_bytes = len(x.shape), ITEM_BYTES[x.dtype]
    given = ctx.attrs["axis"] if rank else ()
    turned = {axis % rank for axis in given} or set(range(rank))
    compact = compact_strides(x.shape)
    first = sum((x.shape[axis] - 1) * compact[axis] for axis in turned)
    strides = [-step if axis in turned else step for axis, step in enumerate(compact)]
    begin = plan.input("x") + first * item_bytes
    launch_move(plan, plan.output("out"), begin, x.shape, compact, strides, item_bytes)


FLIP: Final = Kernel(_fill_in_flip)


def _fill_in_roll(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy boxes: along each axis, the shifted part and the part that wraps around."""
    x = ctx.inputs["x"][0]
    if count_of(x) == 0:
        return
    item_bytes = ITEM_BYTES[x.dtype]
    dims = (ctx.attrs["axis"] and x.shape) or (math.prod(x.shape),)
    by = [0] * len(dims)
    for axis, shift in zip(ctx.attrs["axis"] or (0,), ctx.attrs["shift"], strict=True):
        by[axis] = shift % dims[axis]
    compact = compact_strides(dims)
    # Each axis has two parts, each described by (length, index in x, index in out).
    pairs = [((n - s, 0, s), (s, n - s, 0)) for n, s in zip(dims, by, strict=True)]
    for box in itertools.product(*pairs):
        lengths = [length for length, _, _ in box]
        source = sum(place * step for (_, place, _), step in zip(box, compact, strict=True))
        target = sum(place * step for (_, _, place), step in zip(box, compact, strict=True))
        out, begin = plan.output("out") + target * item_bytes, plan.input("x") + source * item_bytes
        launch_move(plan, out, begin, lengths, compact, compact, item_bytes)


ROLL: Final = Kernel(_fill_in_roll)
