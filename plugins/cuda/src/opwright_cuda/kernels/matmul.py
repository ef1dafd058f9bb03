"""Matrix products by NumPy's rules, computed by cuBLASLt or by our own kernels."""

from __future__ import annotations

from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import Operand
from opwright_cuda.kernels.reduction import launch_reduction, total_of
from opwright_cuda.launch import Kernel, LaunchPlan, bytes_of, refuse_for
from opwright_cuda.launch.indexing import MAX_RANK
from opwright_cuda.products import (
    Operands,
    Product,
    add_own_product,
    add_product,
    add_small_product,
    count_parts,
    cut_product,
    describe_product,
    find_refusal,
    find_small_refusal,
)


def _describe(ctx: PrepareContext) -> Product:
    x, y = ctx.inputs["x"][0], ctx.inputs["y"][0]
    turned = ctx.attrs["transpose_x"], ctx.attrs["transpose_y"]
    return describe_product(x.shape, y.shape, *turned, x.dtype)


def _operands(plan: LaunchPlan) -> Operands:
    return Operands(plan.input("x"), plan.input("y"), plan.output("out"))


def _fill_in_blas(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Multiply floats."""
    product = _describe(ctx)
    refuse_for(ctx, find_refusal(product))
    if product.is_empty:
        return
    if product.k == 0:
        plan.fill(plan.output("out"), bytes_of(ctx.outputs["out"][0]))
        return
    parts = count_parts(product, plan.gpu.multiprocessors, plan.allows_tf32)
    if parts > 1:
        _add_parts(plan, product, parts)
    else:
        add_product(plan, product, _operands(plan))


def _add_parts(plan: LaunchPlan, product: Product, parts: int) -> None:
    """Multiply parts of long sums in parallel, then add them."""
    operands, dtype = _operands(plan), product.dtype
    m, n = product.m, product.n
    sums = plan.workspace(parts * m * n * ITEM_BYTES[dtype])
    add_product(plan, cut_product(product, parts), operands._replace(out=sums))
    read = Operand(sums, (parts, m * n), CTYPES[dtype])
    made = Operand(operands.out, (m * n,), CTYPES[dtype])
    launch_reduction(plan, total_of(dtype), read, [0], made)


def _fill_in_small(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Multiply small matrices of floats."""
    product = _describe(ctx)
    refuse_for(ctx, find_small_refusal(product, plan.gpu.multiprocessors, plan.allows_tf32))
    add_small_product(plan, product, _operands(plan))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Multiply any numbers."""
    product = _describe(ctx)
    if len(product.stacks.dims) > MAX_RANK:
        ctx.refuse(f"the stacks broadcast in more than {MAX_RANK} dimensions")
    add_own_product(plan, product, _operands(plan))


BLAS_MATMUL: Final = Kernel(_fill_in_blas)
"""The kernel that calls cuBLASLt."""

SMALL_MATMUL: Final = Kernel(_fill_in_small)
"""The kernel for small products."""

MATMUL: Final = Kernel(_fill_in)
"""Our general kernel."""
