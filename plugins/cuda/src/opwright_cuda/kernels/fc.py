"""Fully connected layers: cuBLASLt adds the bias before a sum is stored."""

from __future__ import annotations

import math
from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import compute_type
from opwright_cuda.kernels.elementwise import Operand, launch_elementwise, operand
from opwright_cuda.kernels.softmax import launch_softmax
from opwright_cuda.launch import Kernel, LaunchPlan, bytes_of
from opwright_cuda.launch.indexing import Layout
from opwright_cuda.products import Operands, Product, add_product, find_refusal

_FUNCTORS: Final = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Multiply, add the bias, apply the activation."""
    activation = ctx.attrs["activation"]
    product = _describe(ctx)
    reason = find_refusal(product)
    if reason is not None:
        ctx.refuse(reason)
    if product.is_empty:
        return
    if product.k == 0:
        _add_bias_alone(ctx, plan)
    else:
        bias = plan.optional_input("bias")
        operands = Operands(plan.input("x"), plan.input("weight"), plan.output("out"), bias)
        add_product(plan, product, operands)
    if activation == "softmax":
        out, meta = plan.output("out"), ctx.outputs["out"][0]
        launch_softmax(plan, activation, out, out, meta, -1)
    elif activation:
        rows = _out(ctx, plan)
        functor = f"{_FUNCTORS[activation]}<{compute_type(product.dtype)}>"
        launch_elementwise(plan, functor, rows, [rows])


def _describe(ctx: PrepareContext) -> Product:
    """The kept axes of x are the rows, all others together the inner dimension."""
    x, kept = ctx.inputs["x"][0], ctx.attrs["num_flatten_dims"]
    k, n = ctx.inputs["weight"][0].shape
    stacks = Layout((), ((), (), ()))
    return Product(math.prod(x.shape[:kept]), n, k, False, False, stacks, x.dtype, x.dtype)


def _add_bias_alone(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """An empty sum is 0: every row is the bias."""
    if not ctx.inputs["bias"]:
        plan.fill(plan.output("out"), bytes_of(ctx.outputs["out"][0]))
        return
    meta = ctx.inputs["bias"][0]
    functor = f"Identity<{compute_type(meta.dtype)}>"
    launch_elementwise(plan, functor, _out(ctx, plan), [operand(plan.input("bias"), meta)])


def _out(ctx: PrepareContext, plan: LaunchPlan) -> Operand:
    return operand(plan.output("out"), ctx.outputs["out"][0])


FC: Final = Kernel(_fill_in)
"""By cuBLASLt; where that refuses, the operator is computed as a product, a sum, an activation."""
