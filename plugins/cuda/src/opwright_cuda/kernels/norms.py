"""clip_by_norm, clip_by_global_norm and lamb, which scale by the norm of complete tensors.

One launch per tensor sums squares, one block computes the factor, and another launch per tensor
multiplies by the factor.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, compute_type
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.optimizers import attributes_of
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, count_of
from opwright_cuda.source import Source, own_source

_RULE_BYTES: Final = 64
"""Bytes reserved for one ``Lamb<double>``."""


def _source() -> Source:
    return own_source("norms.cu", ("-fmad=false",))


def _fill_in_clip(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Scale tensors so that their norm does not exceed the maximum."""
    metas = ctx.inputs["x"]
    ctype = CTYPES[metas[0].dtype]
    sizes = {i: count_of(meta) for i, meta in enumerate(metas) if count_of(meta)}
    grids = {i: blocks_for(n, plan) for i, n in sizes.items()}
    total = sum(grids.values())
    sums, factor = plan.workspace(8 * max(total, 1)), plan.workspace(8)
    begin = 0
    for i, n in sizes.items():
        arguments: list[Argument] = [sums + 8 * begin, plan.input("x", i), np.int64(n)]
        plan.launch(_source(), f"add_squares<{ctype}>", grids[i], THREADS, arguments)
        begin += grids[i]
    norm = plan.output("norm") if "norm" in ctx.outputs else None
    arguments = [factor, norm, sums, np.int32(total), np.float64(ctx.attrs["max_norm"])]
    plan.launch(_source(), f"find_factor<{ctype}>", 1, THREADS, arguments)
    for i, n in sizes.items():
        arguments = [plan.output("out", i), plan.input("x", i), factor, np.int64(n)]
        plan.launch(_source(), f"scale_by<{ctype}>", grids[i], THREADS, arguments)


CLIP_BY_NORM: Final = Kernel(_fill_in_clip)


def _is_double(ctx: PrepareContext, slot: str) -> np.int32:
    return np.int32(ctx.inputs[slot][0].dtype == "float64")


def _fill_in_lamb(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Update the moments, compute the step length, and apply the step."""
    meta = ctx.inputs["param"][0]
    n = count_of(meta)
    grid = blocks_for(n, plan)
    slots = ("param_out", "moment1_out", "moment2_out")
    param, moment1, moment2 = (plan.output(slot) for slot in slots)
    tensors = Struct(param, plan.input("grad"), moment1, moment2)
    attributes = attributes_of(ctx, ("beta1", "beta2", "epsilon", "weight_decay"))
    names = ("beta1_power", "beta2_power")
    powers = Struct(
        *(plan.output(f"{name}_out") for name in names), *(_is_double(ctx, name) for name in names)
    )
    rate = Struct(plan.input("learning_rate"), _is_double(ctx, "learning_rate"))
    sums = plan.workspace(16 * max(grid, 1))
    step, rule = plan.workspace(8), plan.workspace(_RULE_BYTES)
    ctype = CTYPES[meta.dtype]
    arguments: list[Argument]
    if n:
        arguments = [tensors, sums, attributes, powers, np.int64(n)]
        plan.launch(_source(), f"move_moments<{ctype}>", grid, THREADS, arguments)
    arguments = [step, rule, sums, np.int32(grid if n else 0), attributes, rate, powers]
    plan.launch(_source(), f"find_step<{compute_type(meta.dtype)}>", 1, THREADS, arguments)
    if n:
        arguments = [tensors, step, rule, np.int64(n)]
        plan.launch(_source(), f"take_step<{ctype}>", grid, THREADS, arguments)


LAMB: Final = Kernel(_fill_in_lamb)
