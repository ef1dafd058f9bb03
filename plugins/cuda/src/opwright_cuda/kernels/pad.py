"""Padding of tensors; negative widths crop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.creation import item_of
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lines import VECTOR_BYTES
from opwright_cuda.kernels.movement import index_type, launch_move, unit_of
from opwright_cuda.launch import UNITS, Argument, Kernel, LaunchPlan, Pointer, Struct, count_of
from opwright_cuda.launch.indexing import MAX_RANK, Layout, compact_strides, layout_struct
from opwright_cuda.source import own_source

_MODES: Final = {"constant": 0, "reflect": 1, "edge": 2, "wrap": 3}


class Axis(NamedTuple):
    """The length of an axis, and the padding before and after it; negative padding crops."""

    before: int
    behind: int
    length: int

    @property
    def whole(self) -> int:
        """The padded length."""
        return self.before + self.length + self.behind

    @property
    def inverse(self) -> Axis:
        """The padded axis, with the negative padding that restores the original axis."""
        return Axis(-self.before, -self.behind, self.whole)

    @property
    def is_bare(self) -> bool:
        """Whether the axis is not padded."""
        return self.before == self.behind == 0

    def times(self, n: int) -> Axis:
        """Return the axis in which each element is replaced by `n` elements."""
        return Axis(self.before * n, self.behind * n, self.length * n)


def merge_axes(axes: Sequence[Axis], is_constant: bool) -> list[Axis]:
    """Merge axes where possible.

    An unpadded axis merges with an adjacent unpadded axis. With constant padding, an unpadded axis
    merges with any preceding axis.
    """
    kept: list[Axis] = []
    for axis in axes:
        if kept and axis.is_bare and (is_constant or kept[-1].is_bare):
            kept[-1] = kept[-1].times(axis.length)
        else:
            kept.append(axis)
    return kept or [Axis(0, 0, 1)]


def _axes(ctx: PrepareContext, shape: Sequence[int]) -> list[Axis]:
    paddings = ctx.attrs["paddings"]
    return [Axis(paddings[2 * i], paddings[2 * i + 1], dim) for i, dim in enumerate(shape)]


def _border(axes: Sequence[Axis]) -> Struct:
    """Return ``Border`` of pad.cu."""
    rest = [Axis(0, 0, 1)] * (MAX_RANK - len(axes))
    listed = [*reversed(axes), *rest]
    return Struct(*(np.array(column, np.int64) for column in zip(*listed, strict=True)))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write every element of the output, from the input or the padding value."""
    x, mode = ctx.inputs["x"][0], ctx.attrs["mode"]
    if count_of(ctx.outputs["out"][0]) == 0:
        return
    value = ctx.attrs["value"] if mode == "constant" else 0.0
    pointers = plan.output("out"), plan.input("x")
    _launch(plan, pointers, x.dtype, _axes(ctx, x.shape), mode, value)


def _launch(
    plan: LaunchPlan,
    pointers: tuple[Pointer, Pointer],
    dtype: str,
    axes: Sequence[Axis],
    mode: str,
    value: float = 0.0,
) -> None:
    """Add the launch that pads an input with these axes; the output must not be empty."""
    unit = item_bytes = ITEM_BYTES[dtype]
    axes = merge_axes(axes, mode == "constant")
    last = axes[-1]
    if mode == "constant" or last.is_bare:
        unit = unit_of(item_bytes, last.times(item_bytes))
        n_items = unit // item_bytes
        axes[-1] = Axis(last.before // n_items, last.behind // n_items, last.length // n_items)
    words = np.frombuffer(item_of(dtype, value).tobytes() * (VECTOR_BYTES // item_bytes), np.uint64)
    dims = tuple(axis.whole for axis in axes)
    layout = Layout(dims, (compact_strides([axis.length for axis in axes]),))
    n = math.prod(dims)
    arguments: list[Argument] = [*pointers, np.int64(n)]
    arguments += [layout_struct(layout), _border(axes), np.int32(_MODES[mode]), Struct(words)]
    expression = f"pad<{UNITS[unit]}, {index_type(n)}>"
    plan.launch(own_source("pad.cu"), expression, blocks_for(n, plan), THREADS, arguments)


PAD: Final = Kernel(_fill_in)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum the gradients of all copies of every element."""
    if not ctx.outputs["x_grad"]:
        return
    x_grad, mode = ctx.outputs["x_grad"][0], ctx.attrs["mode"]
    axes = _axes(ctx, x_grad.shape)
    n = count_of(x_grad)
    if n == 0:
        return
    pointers = plan.output("x_grad"), plan.input("out_grad")
    if mode == "constant" and min(ctx.attrs["paddings"], default=0) < 0:
        _launch(plan, pointers, x_grad.dtype, [axis.inverse for axis in axes], mode)
        return
    if mode == "constant":
        strides = compact_strides([axis.whole for axis in axes])
        first = sum(axis.before * step for axis, step in zip(axes, strides, strict=True))
        item_bytes = ITEM_BYTES[x_grad.dtype]
        begin = pointers[1] + first * item_bytes
        compact = compact_strides(x_grad.shape)
        launch_move(plan, pointers[0], begin, x_grad.shape, compact, strides, item_bytes)
        return
    axes = merge_axes(axes, is_constant=False)
    dims = tuple(axis.length for axis in axes)
    layout = Layout(dims, (compact_strides([axis.whole for axis in axes]),))
    arguments: list[Argument] = [*pointers, np.int64(n)]
    arguments += [layout_struct(layout), _border(axes), np.int32(_MODES[mode])]
    expression = f"pad_grad<{CTYPES[x_grad.dtype]}, {index_type(n)}>"
    plan.launch(own_source("pad.cu"), expression, blocks_for(n, plan), THREADS, arguments)


PAD_GRAD: Final = Kernel(_fill_in_grad)
