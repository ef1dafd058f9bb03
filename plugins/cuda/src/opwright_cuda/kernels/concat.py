"""Joining and splitting tensors along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.movement import index_type, unit_of
from opwright_cuda.launch import UNITS, Argument, Kernel, LaunchPlan, Pointer, Struct, count_of
from opwright_cuda.launch.indexing import NARROW, divider
from opwright_cuda.source import own_source

MAX_PARTS: Final = 32
"""``kMaxParts`` of concat.cu."""


class Part(NamedTuple):
    """One of the consecutive parts along the axis."""

    pointer: Pointer
    meta: Meta


def launch_parts(
    plan: LaunchPlan, whole: Pointer, parts: Sequence[Part], axis: int, into_whole: bool
) -> None:
    """Add the copy between parts and the whole.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    whole : Pointer
        The tensor made of the parts.
    parts : sequence of Part
        The parts in order, with equal dtypes and with equal shapes except along the axis.
    axis : int
        The axis, counted from the front; trailing axes are contiguous.
    into_whole : bool
        Whether the parts are copied into the whole.
    """
    item_bytes = ITEM_BYTES[parts[0].meta.dtype]
    rows = [math.prod(part.meta.shape[axis:]) * item_bytes for part in parts]
    unit = unit_of(item_bytes, rows)
    step = sum(rows) // unit
    records: list[tuple[int, Struct]] = []
    for part, row_bytes, begin in zip(parts, rows, np.cumsum([0, *rows]), strict=False):
        n, row = count_of(part.meta) * item_bytes // unit, row_bytes // unit
        if n == 0:
            continue
        sides = [(part.pointer, row), (whole + int(begin), step)]
        (out, out_step), (x, x_step) = reversed(sides) if into_whole else sides
        numbers = (np.int64(number) for number in (n, row, out_step, x_step))
        records.append((n, Struct(out, x, *numbers, divider(row if row < NARROW else 1))))
    unused = Struct(None, None, *[np.int64(0)] * 4, divider(1))
    for first in range(0, len(records), MAX_PARTS):
        some = records[first : first + MAX_PARTS]
        most = max(n for n, _ in some)
        table = Struct(*(record for _, record in some), *[unused] * (MAX_PARTS - len(some)))
        expression = f"copy_parts<{UNITS[unit]}, {index_type(most)}>"
        grid = (blocks_for(most, plan), len(some))
        arguments: list[Argument] = [table]
        plan.launch(own_source("concat.cu"), expression, grid, THREADS, arguments)


def _outputs(ctx: PrepareContext, plan: LaunchPlan, slot: str) -> list[Part]:
    return [Part(plan.output(slot, i), meta) for i, meta in enumerate(ctx.outputs[slot])]


def _axis(ctx: PrepareContext, slot: Meta) -> int:
    axis: int = ctx.attrs["axis"] % len(slot.shape)
    return axis


def _fill_in_concat(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy every input into the output, for concat and stack."""
    parts = [Part(plan.input("x", i), meta) for i, meta in enumerate(ctx.inputs["x"])]
    axis = _axis(ctx, ctx.outputs["out"][0])
    launch_parts(plan, plan.output("out"), parts, axis, into_whole=True)


def _fill_in_split(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy every part into its output, for split and unstack."""
    parts = _outputs(ctx, plan, "out")
    launch_parts(plan, plan.input("x"), parts, _axis(ctx, ctx.inputs["x"][0]), into_whole=False)


def _fill_in_concat_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Split the gradient into the gradients of the inputs."""
    parts = _outputs(ctx, plan, "x_grad")
    axis = _axis(ctx, ctx.inputs["out_grad"][0])
    launch_parts(plan, plan.input("out_grad"), parts, axis, into_whole=False)


CONCAT: Final = Kernel(_fill_in_concat)
SPLIT: Final = Kernel(_fill_in_split)
CONCAT_GRAD: Final = Kernel(_fill_in_concat_grad)
