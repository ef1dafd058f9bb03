"""Chains of tags: linear_chain_crf, its gradient, and viterbi_decode. One block per sequence."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, compute_bytes
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lengths import describe_lengths, launch_check
from opwright_cuda.kernels.losses import describe_labels
from opwright_cuda.kernels.room import blocks_with_room
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct
from opwright_cuda.source import own_source

MOST_PARTS: Final = 256
"""Number of blocks that sum the transition gradient of their sequences, on any GPU."""

MOST_PART_BYTES: Final = 2**26
"""Maximum memory for their partial sums."""


def _describe_chain(ctx: PrepareContext, plan: LaunchPlan, x: Meta) -> Struct:
    """Add the check of the lengths; return ``Chain`` of chain.h."""
    launch_check(ctx, plan, ctx.op_type, x.shape[1])
    ends = (plan.optional_input(slot) if slot in ctx.inputs else None for slot in ("start", "end"))
    lengths = describe_lengths(ctx, plan)
    return Struct(plan.input("transition"), *ends, lengths, np.array(x.shape, np.int64))


def _take_exponents(plan: LaunchPlan, x: Meta) -> Struct:
    """Add the exponentials of the transitions; return ``Exponents`` of chain.h."""
    tags, size = x.shape[2], compute_bytes(x.dtype)
    values, tops = plan.workspace(tags * tags * size), plan.workspace(tags * size)
    arguments: list[Argument] = [values, tops, plan.input("transition"), np.int64(tags)]
    expression = f"take_exponents<{CTYPES[x.dtype]}>"
    source = own_source("linear_chain_crf.cu")
    plan.launch(source, expression, blocks_for(tags, plan), THREADS, arguments)
    return Struct(values, tops)


def _fill_in_crf(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compare the score of the tags with the scores of all tag sequences."""
    (x,) = ctx.inputs["x"]
    n, _, tags = x.shape
    team = blocks_with_room(plan, n, tags, 3 * tags * compute_bytes(x.dtype))
    made = [plan.output("out"), plan.output("alpha"), plan.input("x")]
    arguments: list[Argument] = [*made, _describe_chain(ctx, plan, x)]
    arguments += [describe_labels(ctx, plan, tags), _take_exponents(plan, x)]
    expression = f"linear_chain_crf<{CTYPES[x.dtype]}>"
    team.launch(plan, own_source("linear_chain_crf.cu"), expression, arguments)


LINEAR_CHAIN_CRF: Final = Kernel(_fill_in_crf)


def _fill_in_crf_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the marginals of tags and transitions, in parts summed in order."""
    (alpha,) = ctx.inputs["alpha"]
    (n, _, tags), size = alpha.shape, compute_bytes(alpha.dtype)
    stride = tags * (tags + 2)
    n_parts = min(n, MOST_PARTS, max(MOST_PART_BYTES // (stride * size), 1))
    parts = plan.workspace(max(n_parts, 1) * stride * size)
    plan.fill(parts, n_parts * stride * size)
    team = blocks_with_room(plan, n, tags, 6 * tags * size, max(n_parts, 1))
    source, ctype = own_source("linear_chain_crf_grad.cu"), CTYPES[alpha.dtype]
    arguments: list[Argument] = [plan.optional_output("x_grad"), Struct(parts, np.int64(n_parts))]
    arguments += [plan.input("alpha"), plan.input("out_grad"), _describe_chain(ctx, plan, alpha)]
    arguments += [describe_labels(ctx, plan, tags), _take_exponents(plan, alpha)]
    team.launch(plan, source, f"linear_chain_crf_grad<{ctype}>", arguments)
    begin = 0
    for slot, count in (("transition", tags * tags), ("start", tags), ("end", tags)):
        for meta in ctx.outputs[f"{slot}_grad"]:
            elements = prod(meta.shape)
            arguments = [plan.output(f"{slot}_grad"), parts + begin * size, np.int64(stride)]
            arguments += [np.int64(n_parts), np.int64(elements)]
            plan.launch(
                source, f"add_parts<{ctype}>", blocks_for(elements, plan), THREADS, arguments
            )
        begin += count


LINEAR_CHAIN_CRF_GRAD: Final = Kernel(_fill_in_crf_grad)


def _fill_in_viterbi(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Find the best tag sequence."""
    (x,) = ctx.inputs["x"]
    n, steps, tags = x.shape
    team = blocks_with_room(plan, n, tags, 2 * tags * compute_bytes(x.dtype))
    before = plan.workspace(max(team.n_blocks * steps * tags, 1) * 4)
    made = [plan.output("out"), plan.output("path"), plan.input("x")]
    arguments: list[Argument] = [*made, _describe_chain(ctx, plan, x), before]
    expression = f"viterbi_decode<{CTYPES[x.dtype]}>"
    team.launch(plan, own_source("viterbi_decode.cu"), expression, arguments)


VITERBI_DECODE: Final = Kernel(_fill_in_viterbi)
