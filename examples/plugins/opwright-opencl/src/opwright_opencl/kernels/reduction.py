"""Sums and means over adjacent axes, and the reverse of broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opwright.kernel import PrepareContext
from opwright_opencl.shapes import Lines, lines_over
from opwright_opencl.work import Kernel, Local, Scratch, Slot, Work, group_for

COLUMNS = 32
"""The number of adjacent sums that a work-group computes together, a whole memory line."""

PART = 2048
"""The number of elements above which several work-groups share a sum."""


def _sum(ctx: PrepareContext, work: Work, axes: Sequence[int], is_mean: bool) -> None:
    shape = ctx.inputs["x"][0].shape
    lines = lines_over(shape, axes)
    if lines is None:
        ctx.refuse(f"reduced axes must be adjacent, got {list(axes)} of {list(shape)}")
    divisor = float(lines.length) if is_mean else 1.0
    x, out = work.slot("x"), work.slot("out")
    parts = _parts(lines, work)
    if parts == 1:
        _launch(work, x, out, lines, 1, divisor)
        return
    between = Scratch(lines.n_lines * parts)
    _launch(work, x, between, lines, parts, 1.0)
    _launch(work, between, out, lines._replace(length=parts), 1, divisor)


def _parts(lines: Lines, work: Work) -> int:
    """Return the number of parts per sum, which is above 1 for a few long sums."""
    groups = max(1, lines.outer * -(-lines.inner // COLUMNS))
    wanted = -(-4 * work.device.compute_units // groups)
    return max(1, min(wanted, lines.length // PART))


def _launch(
    work: Work, x: Slot | Scratch, out: Slot | Scratch, lines: Lines, parts: int, divisor: float
) -> None:
    chunk = -(-lines.length // parts)
    largest = work.device.largest_group
    columns = 1 if lines.inner == 1 else min(COLUMNS, largest)
    items = group_for(chunk * columns, largest)
    groups = lines.outer * parts * -(-lines.inner // columns)
    sizes = map(np.uint64, (lines.length, lines.inner, columns, parts, chunk))
    arguments = (x, out, *sizes, work.number(divisor), Local(items))
    work.launch("sum_lines", (groups,), (items,), *arguments)


def _reduction(is_mean: bool) -> Kernel:
    def write(ctx: PrepareContext, work: Work) -> None:
        _sum(ctx, work, ctx.attrs["axis"], is_mean)

    return Kernel(write)


SUM, MEAN = _reduction(False), _reduction(True)


def _sum_like(ctx: PrepareContext, work: Work) -> None:
    """Sum over the axes along which an array with the shape of out would be broadcast."""
    shape, target = ctx.inputs["x"][0].shape, ctx.outputs["out"][0].shape
    added = len(shape) - len(target)
    stretched = [axis for axis, dim in enumerate(target, added) if dim == 1 != shape[axis]]
    axes = [*range(added), *stretched]
    if axes:
        _sum(ctx, work, axes, False)
    else:  # no axis was broadcast
        work.move("x", "out", ctx.inputs["x"][0])


SUM_LIKE = Kernel(_sum_like)
