"""scaled_dot_product_attention: products, and row operations on the scores."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import ITEM_BYTES, compute_dtype, compute_type
from opwright_cuda.kernels.lines import Lines, Team, team_to_keep
from opwright_cuda.kernels.reduction import scalar
from opwright_cuda.kernels.seen import Weighing, add_seen_product
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, bytes_of, fill_zeros
from opwright_cuda.launch.indexing import broadcast_strides, layout_struct, merge
from opwright_cuda.products import Operands, add_either_product, describe_product
from opwright_cuda.source import own_source


class Extents(NamedTuple):
    """The dimensions of attention; q is [groups, rows, size], where the rows of a group share keys.

    Attributes
    ----------
    groups, rows, keys, size, columns : int
        Extents of the products.
    queries : int
        Number of queries per head.
    dtype : str
        The dtype of q, k and v.
    hides : bool
        Whether keys may be hidden from queries.
    """

    groups: int
    rows: int
    keys: int
    size: int
    columns: int
    queries: int
    dtype: str
    hides: bool

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return self.groups * self.rows * self.keys

    @property
    def score_dtype(self) -> str:
        """Dtype of the scores before softmax; float32 for 16-bit inputs."""
        return compute_dtype(self.dtype)

    def scores(self, plan: LaunchPlan) -> Pointer:
        """Return scratch memory for all scores."""
        return plan.workspace(self.n_scores * ITEM_BYTES[self.score_dtype])

    def weights(self, plan: LaunchPlan, scores: Pointer) -> Pointer:
        """Return memory for the results, in place of the scores if the dtypes are equal."""
        if self.score_dtype == self.dtype:
            return scores
        return plan.workspace(self.n_scores * ITEM_BYTES[self.dtype])

    def team(self, n_arrays: int = 1) -> Team:
        """Return the teams for the rows of `n_arrays` arrays of scores."""
        lines = Lines(self.groups * self.rows, self.keys, 1)
        return team_to_keep(lines, self.score_dtype, n_arrays)

    def multiply(
        self,
        plan: LaunchPlan,
        x: tuple[int, int],
        y: tuple[int, int],
        operands: Operands,
        turned: tuple[bool, bool] = (False, False),
        out_dtype: str | None = None,
    ) -> None:
        """Add the matrix product of each group."""
        shapes = (self.groups, *x), (self.groups, *y)
        product = describe_product(*shapes, *turned, self.dtype, out_dtype)
        add_either_product(plan, product, operands)

    def weigh(self, plan: LaunchPlan, operands: Operands, columns: int, turned: bool) -> None:
        """Add the product of weights (transposed or not) and rows, without hidden keys."""
        rows, terms = (self.keys, self.rows) if turned else (self.rows, self.keys)
        weighing = Weighing(self.groups, rows, terms, columns, turned, self.dtype)
        add_seen_product(plan, weighing, operands, self.hides)

    def score(self, plan: LaunchPlan, size: int, x: Pointer, y: Pointer) -> Pointer:
        """Add the products of rows and keys; return the memory of the results."""
        scores = self.scores(plan)
        shapes = (self.rows, size), (self.keys, size)
        self.multiply(plan, *shapes, Operands(x, y, scores), (False, True), self.score_dtype)
        return scores


def extents_of(ctx: PrepareContext) -> Extents:
    """Return the dimensions of the operator."""
    q, k, v = (ctx.inputs[slot][0].shape for slot in ("q", "k", "v"))
    groups = math.prod(k[:-2])
    rows = math.prod(q[:-1]) // max(groups, 1)
    hides = bool(ctx.inputs["mask"]) or bool(ctx.attrs["causal"])
    return Extents(groups, rows, k[-2], q[-1], v[-1], q[-2], ctx.inputs["q"][0].dtype, hides)


def mask_of(ctx: PrepareContext, plan: LaunchPlan, rows: Meta) -> Struct:
    """Return ``Mask`` of attention.h; `rows` has the shape of the scores without the keys."""
    masks, keys = ctx.inputs["mask"], ctx.inputs["k"][0].shape[-2]
    shape = masks[0].shape if masks else ()
    strides = broadcast_strides(shape, (*rows.shape, keys))
    given: list[Pointer | None] = [None, None]
    if masks:
        given[0 if masks[0].dtype == "bool" else 1] = plan.input("mask")
    layout = layout_struct(merge(rows.shape, [strides[:-1]]))
    queries, causal = np.int64(max(rows.shape[-1], 1)), np.int32(ctx.attrs["causal"])
    return Struct(*given, layout, np.int64(strides[-1]), queries, causal)


def attention_scale(ctx: PrepareContext, extents: Extents) -> np.generic:
    """Return the factor of the products in the compute dtype."""
    given = ctx.attrs.get("scale")
    factor = 1 / math.sqrt(max(extents.size, 1)) if given is None else given
    return scalar(compute_type(extents.dtype), factor)


def _fill_in_attention(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute all scores, weights, and weighted means of the values."""
    e = extents_of(ctx)
    if e.groups * e.rows == 0:
        return
    if e.keys == 0:
        plan.fill(plan.output("out"), bytes_of(ctx.outputs["out"][0]))
    scores = e.score(plan, e.size, plan.input("q"), plan.input("k"))
    weights = e.weights(plan, scores)
    mask = mask_of(ctx, plan, ctx.outputs["log_sum_exp"][0])
    arguments: list[Argument] = [
        weights,
        plan.output("log_sum_exp"),
        scores,
        attention_scale(ctx, e),
        mask,
    ]
    e.team().launch_typed(plan, own_source("attention.cu"), "attention_lines", e.dtype, arguments)
    e.weigh(plan, Operands(weights, plan.input("v"), plan.output("out")), e.columns, turned=False)


ATTENTION: Final = Kernel(_fill_in_attention)


def _fill_in_attention_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Recompute the weights and compute the gradients from them."""
    e = extents_of(ctx)
    if e.n_scores == 0:
        fill_zeros(ctx, plan)
        return
    q, k, v, grad = (plan.input(slot) for slot in ("q", "k", "v", "out_grad"))
    products, products_grad = e.score(plan, e.size, q, k), e.score(plan, e.columns, grad, v)
    weights, inner = e.weights(plan, products), e.weights(plan, products_grad)
    mask = mask_of(ctx, plan, ctx.inputs["log_sum_exp"][0])
    arguments: list[Argument] = [weights, inner, products, products_grad]
    arguments += [plan.input("log_sum_exp"), attention_scale(ctx, e), mask]
    e.team(2).launch_typed(
        plan, own_source("attention.cu"), "attention_grad_lines", e.dtype, arguments
    )
    if ctx.outputs["v_grad"]:
        e.weigh(plan, Operands(weights, grad, plan.output("v_grad")), e.columns, turned=True)
    if ctx.outputs["q_grad"]:
        e.weigh(plan, Operands(inner, k, plan.output("q_grad")), e.size, turned=False)
    if ctx.outputs["k_grad"]:
        e.weigh(plan, Operands(inner, q, plan.output("k_grad")), e.size, turned=True)


ATTENTION_GRAD: Final = Kernel(_fill_in_attention_grad)
