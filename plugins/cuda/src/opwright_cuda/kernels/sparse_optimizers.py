"""Updates of looked-up rows of a table; other rows are neither read nor written.

The slices of each row are listed and summed in order, so each row is updated once,
deterministically. For any number of lookups, the list takes 8 bytes per row of the table, which is
a few percent of the table size.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext, Refuse
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.add_slices import LookUp, Slices, launch_add_listed
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.optimizers import (
    RULES,
    Rule,
    attributes_of,
    double_bits,
    is_double,
    launch_advance,
    optimizer_source,
)
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, count_of
from opwright_cuda.launch.indexing import NARROW

_WARP: Final = 32


def _rule_of(ctx: PrepareContext) -> Rule:
    rule = RULES[ctx.op_type.removeprefix("sparse_")]
    return rule._replace(attributes=tuple(name for name in rule.attributes if name in ctx.attrs))


def _list_rows(ctx: PrepareContext, plan: LaunchPlan, count: int) -> Slices:
    """Add the concatenation of the row indices and slices of all lookups."""
    metas, param = ctx.inputs["rows"], ctx.inputs["param"][0]
    n, slice_bytes = sum(map(count_of, metas)), param.shape[1] * ITEM_BYTES[param.dtype]
    rows, source = plan.workspace(8 * n), optimizer_source("sparse_optimizers.cu")
    values = plan.input("values") if len(metas) == 1 else plan.workspace(n * slice_bytes)
    text = plan.fault_text(f"{ctx.op_type}: rows must be in [0, {count}), got {{value}}")
    paddings = ctx.attrs["padding_indices"] or [-1] * len(metas)
    begin = 0
    for i, (meta, padding) in enumerate(zip(metas, paddings, strict=True)):
        given = count_of(meta)
        if given == 0:
            continue
        arguments: list[Argument] = [rows + 8 * begin, plan.input("rows", i)]
        arguments += [*(np.int64(number) for number in (given, count, padding))]
        expression = f"list_rows<{CTYPES[meta.dtype]}>"
        report: list[Argument] = [plan.fault(), text]
        blocks = blocks_for(given, plan)
        plan.launch(source, expression, blocks, THREADS, [*arguments, *report])
        if len(metas) > 1:
            to = values + begin * slice_bytes
            plan.copy(to, plan.input("values", i), given * slice_bytes)
        begin += given
    return Slices(values, rows, Meta((n,), "int64"))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum the gradients of each row, update it, and advance the scalars."""
    (param,), rule = ctx.inputs["param"], _rule_of(ctx)
    (count, size), attributes = param.shape, attributes_of(ctx, rule.attributes)
    n = sum(map(count_of, ctx.inputs["rows"]))
    if max(n, count) >= NARROW:
        raise Refuse(f"at most {NARROW - 1} rows are supported, got {max(n, count)}")
    if n * prod(param.shape) > 0:
        slices, look_up = _list_rows(ctx, plan, count), LookUp(1, count, size, 0, -1)
        sums, listed = launch_add_listed(plan, param.dtype, slices, look_up)
        slots = ("param", *rule.states)
        scalars: list[Pointer | None] = [plan.input(slot) for slot in rule.scalars]
        bits = np.uint8(double_bits(ctx, rule, 0))
        tensors = [plan.output(f"{slot}_out") for slot in slots]
        table = Struct(*tensors, *(scalars or [None]), np.int64(size), bits)
        rate = Struct(plan.input("learning_rate"), np.int32(is_double(ctx, "learning_rate")))
        arguments: list[Argument] = [table, sums, listed, attributes, rate]
        threads = min(THREADS, -(-size // _WARP) * _WARP)
        expression = f"update_rows<{rule.name}, {CTYPES[param.dtype]}>"
        source = optimizer_source("sparse_optimizers.cu")
        plan.launch(source, expression, min(n, count), threads, arguments)
    if rule.scalars:
        launch_advance(ctx, plan, rule, attributes)


UPDATE_ROWS: Final = Kernel(_fill_in)
"""sparse_sgd, sparse_momentum, sparse_adagrad and sparse_adam."""
