"""Fully connected layers add the bias before a sum is stored.

For small layers the activation is fused as well.
"""

from __future__ import annotations

import math
from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import compute_type
from opwright_cuda.kernels.elementwise import Operand, launch_elementwise, operand
from opwright_cuda.kernels.softmax import launch_softmax
from opwright_cuda.launch import Kernel, LaunchPlan, bytes_of, refuse_for
from opwright_cuda.launch.indexing import Layout
from opwright_cuda.products import (
    Operands,
    Product,
    add_product,
    add_small_product,
    find_refusal,
    find_small_refusal,
)

_FUNCTORS: Final = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Multiply, add the bias and apply the activation."""
    activation = ctx.attrs["activation"]
    product = _describe(ctx)
    refuse_for(ctx, find_refusal(product))
    if product.is_empty:
        return
    if product.k == 0:
        _add_bias_alone(ctx, plan)
    else:
        add_product(plan, product, _operands(plan))
    if activation == "softmax":
        _add_softmax(ctx, plan)
    elif activation:
        rows = _out(ctx, plan)
        functor = f"{_FUNCTORS[activation]}<{compute_type(product.dtype)}>"
        launch_elementwise(plan, functor, rows, [rows])


def _fill_in_small(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Multiply, add the bias and apply the activation in one launch, or in two for softmax."""
    activation = ctx.attrs["activation"]
    product = _describe(ctx)
    refuse_for(ctx, find_small_refusal(product, plan.gpu.multiprocessors, plan.allows_tf32))
    if product.is_empty:
        return
    add_small_product(plan, product, _operands(plan), _FUNCTORS.get(activation, "Identity"))
    if activation == "softmax":
        _add_softmax(ctx, plan)


def _describe(ctx: PrepareContext) -> Product:
    """Return the product; x becomes a matrix whose rows are the kept axes."""
    x, kept = ctx.inputs["x"][0], ctx.attrs["num_flatten_dims"]
    turned = ctx.attrs["transpose_weight"]
    rows, columns = ctx.inputs["weight"][0].shape
    k, n = (columns, rows) if turned else (rows, columns)
    stacks = Layout((), ((), (), ()))
    return Product(math.prod(x.shape[:kept]), n, k, False, turned, stacks, x.dtype, x.dtype)


def _operands(plan: LaunchPlan) -> Operands:
    bias = plan.optional_input("bias")
    return Operands(plan.input("x"), plan.input("weight"), plan.output("out"), bias)


def _add_softmax(ctx: PrepareContext, plan: LaunchPlan) -> None:
    out, meta = plan.output("out"), ctx.outputs["out"][0]
    launch_softmax(plan, "softmax", out, out, meta, -1)


def _add_bias_alone(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write the bias to every row, since an empty sum is 0."""
    if not ctx.inputs["bias"]:
        plan.fill(plan.output("out"), bytes_of(ctx.outputs["out"][0]))
        return
    meta = ctx.inputs["bias"][0]
    functor = f"Identity<{compute_type(meta.dtype)}>"
    launch_elementwise(plan, functor, _out(ctx, plan), [operand(plan.input("bias"), meta)])


def _out(ctx: PrepareContext, plan: LaunchPlan) -> Operand:
    return operand(plan.output("out"), ctx.outputs["out"][0])


FC: Final = Kernel(_fill_in)
"""The kernel that calls cuBLASLt; if it refuses, the operator is decomposed."""

SMALL_FC: Final = Kernel(_fill_in_small)
"""The kernel for small layers."""
