"""Computes a matrix product by the first kernel that supports it."""

from __future__ import annotations

from collections.abc import Callable

from opwright_cuda.launch import LaunchPlan
from opwright_cuda.products.blas import add_product, find_refusal, product_scratch
from opwright_cuda.products.product import Operands, Product
from opwright_cuda.products.small import add_small_product, find_small_refusal
from opwright_cuda.products.tiles import add_own_product


def add_either_product(plan: LaunchPlan, product: Product, operands: Operands) -> None:
    """Add a product by our small kernel, by cuBLASLt or by our general kernel, in this order.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    product : Product
        Its shapes; nothing is added if it is empty.
    operands : Operands
        The operands, without a bias.
    """
    if product.is_empty:
        return
    if _is_small(plan, product):
        add_small_product(plan, product, operands)
    elif product.k > 0 and find_refusal(product) is None:
        add_product(plan, product, operands)
    else:
        add_own_product(plan, product, operands)


def repeated_product(plan: LaunchPlan, product: Product) -> Callable[[Operands], None]:
    """Return a function that adds products of these shapes with shared scratch memory.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    product : Product
        Its shapes; k is at least 1.
    """
    if _is_small(plan, product):
        return lambda operands: add_small_product(plan, product, operands)
    if product.is_empty or find_refusal(product) is not None:
        return lambda operands: add_own_product(plan, product, operands)
    scratch = product_scratch(plan, product)
    return lambda operands: add_product(plan, product, operands, scratch)


def _is_small(plan: LaunchPlan, product: Product) -> bool:
    return find_small_refusal(product, plan.gpu.multiprocessors, plan.allows_tf32) is None
