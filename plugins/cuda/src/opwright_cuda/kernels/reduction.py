"""Reductions over axes and their gradients.

Sums are deterministic, because lines are split depending only on the shape, and a second launch
sums the parts. Several groups of axes are reduced one after another, starting with the last group,
in the compute type of the first launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, compute_type
from opwright_cuda.kernels.elementwise import Operand, launch_elementwise, operand, size_of
from opwright_cuda.kernels.lines import (
    THREADS,
    VECTOR_BYTES,
    Lines,
    columns_of,
    lines_along,
    partials,
    team_to_read,
)
from opwright_cuda.launch import Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.source import own_source

SHARED_BYTES: Final = 16 * 1024
"""Maximum bytes of shared memory for the results of a block that reduces columns."""


class Reducer(NamedTuple):
    """A functor of reduction.cu.

    Attributes
    ----------
    ctype : str
        The functor.
    value : str
        The type of the reduced value.
    value_bytes : int
        The size of that type.
    divisor : np.generic or None
        Its member: the divisor of a sum.
    """

    ctype: str
    value: str
    value_bytes: int
    divisor: np.generic | None = None

    def members(self, is_last: bool) -> Struct:
        """Return the functor as a C++ value; only the last launch divides by the count."""
        if self.divisor is None:
            return Struct()
        return Struct(self.divisor if is_last else type(self.divisor)(1))


_ACCUMULATORS: Final[dict[str, type[Any]]] = {
    "float16": np.float32,
    "bfloat16": np.float32,
    "float32": np.float32,
    "float64": np.float64,
}


def total_of(dtype: str, count: int = 1) -> Reducer:
    """Return the sum of elements of a dtype, divided by `count`; integers use 64 bits."""
    kind = _ACCUMULATORS.get(dtype, np.uint64)
    value = CTYPES[np.dtype(kind).name]
    return Reducer(f"Total<{value}>", value, np.dtype(kind).itemsize, kind(count))


def product_of(dtype: str) -> Reducer:
    """Return the product of elements of a dtype; integers use 64 bits."""
    kind = _ACCUMULATORS.get(dtype, np.uint64)
    value = CTYPES[np.dtype(kind).name]
    return Reducer(f"Product<{value}>", value, np.dtype(kind).itemsize)


def truth_of(is_all: bool) -> Reducer:
    """Return the functor that tests whether any element, or every element, is nonzero."""
    return Reducer(f"Truth<{'true' if is_all else 'false'}>", "uint8_t", 8)


def extremum_of(dtype: str, name: str) -> Reducer:
    """Return ``Greatest`` or ``Least``."""
    value = compute_type(dtype)
    return Reducer(f"{name}<{value}>", value, 8)


def norm_of(dtype: str) -> Reducer:
    """Return the square root of the sum of squares."""
    value = compute_type(dtype)
    n_bytes = 3 * (8 if value == "double" else 4)
    return Reducer(f"Norm<{value}>", f"functors::SquareSum<{value}>", n_bytes)


def launch_lines(
    plan: LaunchPlan, reducer: Reducer, x: Operand, lines: Lines, out: Operand, is_last: bool = True
) -> None:
    """Add the reduction of every line to one element of `out`, in one launch or two."""
    source = own_source("reduction.cu")
    is_row = lines.inner == 1
    if is_row:
        team = team_to_read(lines, may_split=True)
    else:
        most = SHARED_BYTES // THREADS // reducer.value_bytes
        # A previous launch may have written a C++ type that is not a dtype.
        is_dtype = x.ctype in CTYPES.values()
        n_bytes = size_of(x.ctype) if is_dtype else reducer.value_bytes
        team = columns_of(lines, min(VECTOR_BYTES // n_bytes, most))

    def add(read: Pointer, ctype: str, made: Pointer, made_ctype: str, final: bool) -> None:
        kernel = "reduce_lines" if is_row else "reduce_columns"
        expression = f"{kernel}<{team.ctype}, {reducer.ctype}, {ctype}, {made_ctype}>"
        team.launch(plan, source, expression, [made, read, reducer.members(final)])

    if team.parts == 1:
        add(x.pointer, x.ctype, out.pointer, out.ctype, is_last)
        return
    found = partials(plan, team, reducer.value_bytes)
    add(x.pointer, x.ctype, found, reducer.value, False)
    rest = Lines(lines.outer, team.parts, lines.inner)
    team = team_to_read(rest) if is_row else columns_of(rest, 1, may_split=False)
    add(found, reducer.value, out.pointer, out.ctype, is_last)


def launch_reduction(
    plan: LaunchPlan, reducer: Reducer, x: Operand, axes: Sequence[int], out: Operand
) -> None:
    """Add the reduction of a tensor over axes.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    reducer : Reducer
        The reduction.
    x : Operand
        The input, compact.
    axes : sequence of int
        The axes, counted from the front.
    out : Operand
        The output, compact; only its number of elements matters.
    """
    if math.prod(out.shape) == 0:
        return
    marked = [(axis in axes, dim) for axis, dim in enumerate(x.shape) if dim != 1]
    groups = [
        (is_reduced, math.prod(dim for _, dim in group))
        for is_reduced, group in groupby(marked, key=lambda pair: pair[0])
    ]
    if not any(is_reduced for is_reduced, _ in groups):
        groups.append((True, 1))
    while True:
        at = max(i for i, (is_reduced, _) in enumerate(groups) if is_reduced)
        lines = lines_along([dim for _, dim in groups], at)
        del groups[at]
        is_last = not any(is_reduced for is_reduced, _ in groups)
        if is_last:
            launch_lines(plan, reducer, x, lines, out)
            return
        scratch = plan.workspace(lines.n_lines * reducer.value_bytes)
        made = Operand(scratch, (lines.n_lines,), reducer.value)
        launch_lines(plan, reducer, x, lines, made, is_last=False)
        x = made


def _axes(ctx: PrepareContext, rank: int) -> list[int]:
    axes = ctx.attrs["axis"]
    return sorted({axis % rank for axis in axes}) if axes and rank else list(range(rank))


def _fill_in_reduce(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Reduce over axes: sum, prod, mean, max, min, any, all, norm."""
    x, out = ctx.inputs["x"][0], ctx.outputs["out"][0]
    if ctx.op_type == "norm":
        if ctx.attrs["p"] != 2:
            ctx.refuse(f"p must be 2, got {ctx.attrs['p']}")
        reducer = norm_of(x.dtype)
    elif ctx.op_type in {"any", "all"}:
        reducer = truth_of(ctx.op_type == "all")
    elif x.dtype == "bool" and ctx.op_type in {"max", "min"}:
        reducer = truth_of(ctx.op_type == "min")
    elif ctx.op_type == "prod":
        reducer = product_of(x.dtype)
    elif ctx.op_type in {"max", "min"}:
        reducer = extremum_of(x.dtype, "Greatest" if ctx.op_type == "max" else "Least")
    else:
        is_mean = ctx.op_type == "mean"
        reducer = total_of(
            x.dtype, math.prod(x.shape) // max(math.prod(out.shape), 1) if is_mean else 1
        )
    axes = _axes(ctx, len(x.shape))
    launch_reduction(
        plan, reducer, operand(plan.input("x"), x), axes, operand(plan.output("out"), out)
    )


REDUCE: Final = Kernel(_fill_in_reduce)


def _fill_in_sum_like(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum over the axes along which the shape of ``like`` would be broadcast."""
    x, out = ctx.inputs["x"][0], ctx.outputs["out"][0]
    added = len(x.shape) - len(out.shape)
    stretched = [i for i, dim in enumerate(out.shape, added) if dim == 1 != x.shape[i]]
    read, made = operand(plan.input("x"), x), operand(plan.output("out"), out)
    if not added and not stretched:
        launch_elementwise(plan, f"Identity<{compute_type(x.dtype)}>", made, [read])
        return
    launch_reduction(plan, total_of(x.dtype), read, [*range(added), *stretched], made)


SUM_LIKE: Final = Kernel(_fill_in_sum_like)


def _fill_in_position(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Find the index of the first maximum or minimum."""
    x, out = ctx.inputs["x"][0], ctx.outputs["out"][0]
    if math.prod(out.shape) == 0:
        return
    value = compute_type(x.dtype)
    is_largest = "true" if ctx.op_type == "argmax" else "false"
    reducer = Reducer(f"Position<{value}, {is_largest}>", f"Indexed<{value}>", 16)
    lines = lines_along(x.shape, ctx.attrs["axis"])
    launch_lines(
        plan, reducer, operand(plan.input("x"), x), lines, operand(plan.output("out"), out)
    )


POSITION: Final = Kernel(_fill_in_position)


def _spread(ctx: PrepareContext, shape: tuple[int, ...], at: Operand) -> Operand:
    """Return a reduced operand that broadcasts against `shape`."""
    axes = _axes(ctx, len(shape))
    return at._replace(shape=tuple(1 if i in axes else dim for i, dim in enumerate(shape)))


def _fill_in_expand(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Broadcast the gradient of a sum, or of a mean divided by the count."""
    if not ctx.outputs["x_grad"]:
        return
    x_grad = ctx.outputs["x_grad"][0]
    made = operand(plan.output("x_grad"), x_grad)
    out_grad = ctx.inputs["out_grad"][0]
    ctype = compute_type(x_grad.dtype)
    read = _spread(ctx, x_grad.shape, operand(plan.input("out_grad"), out_grad))
    if ctx.op_type == "sum_grad":
        launch_elementwise(plan, f"Identity<{ctype}>", made, [read])
        return
    count = math.prod(x_grad.shape) // max(math.prod(out_grad.shape), 1)
    members = Struct(scalar(ctype, count))
    launch_elementwise(plan, f"DivideBy<{ctype}>", made, [read], members)


EXPAND: Final = Kernel(_fill_in_expand)


def _fill_in_extremum_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Share the gradient between the elements equal to the extremum."""
    if not ctx.outputs["x_grad"]:
        return
    x_grad = ctx.outputs["x_grad"][0]
    made = operand(plan.output("x_grad"), x_grad)
    meta, out_meta = ctx.inputs["x"][0], ctx.inputs["out"][0]
    n, n_out = math.prod(meta.shape), math.prod(out_meta.shape)
    ctype = compute_type(meta.dtype)
    x = operand(plan.input("x"), meta)
    out = _spread(ctx, meta.shape, operand(plan.input("out"), out_meta))
    grad = _spread(ctx, meta.shape, operand(plan.input("out_grad"), out_meta))
    is_best = Operand(plan.workspace(n), meta.shape, "bool")
    ties = Operand(plan.workspace(4 * n_out), out.shape, "uint32_t")
    launch_elementwise(plan, f"IsExtremum<{ctype}>", is_best, [x, out])
    launch_reduction(plan, total_of("bool"), is_best, _axes(ctx, len(meta.shape)), ties)
    launch_elementwise(plan, f"ShareOfTies<{ctype}>", made, [is_best, ties, grad])


EXTREMUM_GRAD: Final = Kernel(_fill_in_extremum_grad)


def scalar(ctype: str, value: float) -> np.generic:
    """Return a scalar of the compute type."""
    return np.float64(value) if ctype == "double" else np.float32(value)
