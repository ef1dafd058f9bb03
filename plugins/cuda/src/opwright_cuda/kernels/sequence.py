"""Padded sequences: sequence_mask, sequence_reverse and sequence_pool."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import BITS, CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lengths import launch_check
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct
from opwright_cuda.source import own_source

_KINDS: Final = ("sum", "mean", "sqrt", "max", "first", "last")
"""Reductions in the order of the enumeration with ``kMean`` in sequence.cu."""


def _launch(
    ctx: PrepareContext,
    plan: LaunchPlan,
    types: str,
    shape: tuple[int, ...],
    n_threads: int,
    arguments: list[Argument],
) -> None:
    """Add the check of the lengths and the operator's kernel on sequences of a padded shape."""
    launch_check(ctx, plan, ctx.op_type, shape[1])
    kind = ctx.attrs.get("kind")
    last = [] if kind is None else [np.int32(_KINDS.index(kind))]
    extents = Struct(np.array([*shape[:2], prod(shape[2:])], np.int64))
    given: list[Argument] = [*arguments, plan.input("lengths"), extents, *last]
    expression = f"{ctx.op_type}<{types}{CTYPES[ctx.inputs['lengths'][0].dtype]}>"
    blocks = blocks_for(n_threads, plan)
    plan.launch(own_source("sequence.cu"), expression, blocks, THREADS, given)


def _fill_in_mask(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compare every step with the length of its sequence."""
    shape = ctx.outputs["out"][0].shape
    _launch(ctx, plan, "", shape, prod(shape), [plan.output("out")])


def _fill_in_reverse(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Copy every element from its reversed position."""
    (x,) = ctx.inputs["x"]
    types = f"{BITS[ITEM_BYTES[x.dtype]]}, "
    _launch(ctx, plan, types, x.shape, prod(x.shape), [plan.output("out"), plan.input("x")])


def _fill_in_pool(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Reduce each column of a sequence to one element."""
    (x,) = ctx.inputs["x"]
    n_threads = prod(ctx.outputs["out"][0].shape)
    arguments: list[Argument] = [plan.output("out"), plan.input("x")]
    _launch(ctx, plan, f"{CTYPES[x.dtype]}, ", x.shape, n_threads, arguments)


def _fill_in_pool_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Distribute the gradient over the steps of its column."""
    (x,), (out_grad,) = ctx.inputs["x"], ctx.inputs["out_grad"]
    if ctx.outputs["x_grad"]:
        read = [plan.input(slot) for slot in ("x", "out", "out_grad")]
        arguments: list[Argument] = [plan.output("x_grad"), *read]
        _launch(ctx, plan, f"{CTYPES[x.dtype]}, ", x.shape, prod(out_grad.shape), arguments)


SEQUENCE_MASK: Final = Kernel(_fill_in_mask)
SEQUENCE_REVERSE: Final = Kernel(_fill_in_reverse)
SEQUENCE_POOL: Final = Kernel(_fill_in_pool)
SEQUENCE_POOL_GRAD: Final = Kernel(_fill_in_pool_grad)
