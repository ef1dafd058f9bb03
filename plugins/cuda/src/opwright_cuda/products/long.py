"""Products of few tiles and long sums: cut along the sum, so that the whole GPU adds.

The gradient of a layer's weight is one: a sum over all rows of a batch for each of a few elements.
cuBLASLt computes it in tiles, each on one multiprocessor, and most of the GPU stands idle.
"""

from __future__ import annotations

from typing import Final

from opwright_cuda.launch.indexing import Layout
from opwright_cuda.products.product import Product

TILE: Final = 64
"""Rows and columns of the tiles by which cuBLASLt is expected to cut a product."""

IDLE: Final = 8
"""A product is cut where it has at most one tile for so many multiprocessors."""

LEAST: Final = 1024
"""The shortest sum that is cut."""

LEAST_PART: Final = 128
"""The fewest steps of a part."""


def count_parts(product: Product, multiprocessors: int, allows_tf32: bool) -> int:
    """Return into how many equal parts the sums of a product are cut; 1: they stay whole.

    Parameters
    ----------
    product : Product
        Its shapes. Only where steps of the sum are rows of both operands the parts are matrices.
    multiprocessors : int
        How many the GPU has.
    allows_tf32 : bool
        Whether float32 may be rounded to TF32: tensor cores need no help.
    """
    are_rows = product.transpose_x and not product.transpose_y and not product.stacks.dims
    if product.dtype != "float32" or allows_tf32 or not are_rows or product.k < LEAST:
        return 1
    tiles = -(-product.m // TILE) * -(-product.n // TILE)
    if not 0 < tiles <= multiprocessors // IDLE:
        return 1
    return equal_parts(product.k, min(multiprocessors // tiles, product.k // LEAST_PART))


def equal_parts(n: int, most: int) -> int:
    """Return the largest power of 2 that divides `n` and is at most `most`, or 1."""
    parts = 1
    while 2 * parts <= most and n % (2 * parts) == 0:
        parts *= 2
    return parts


def cut_product(product: Product, parts: int) -> Product:
    """Return the stack of products of the parts, [parts, m, n]; their sum is the product."""
    m, n, k = product.m, product.n, product.k // parts
    stacks = Layout((parts,), ((k * m,), (k * n,), (m * n,)))
    return product._replace(k=k, stacks=stacks)
