"""Splits the sums of products with few tiles and long sums, to use the whole GPU.

An example is the weight gradient of a layer: its few elements are sums over all rows of a batch.
cuBLASLt computes each tile on one multiprocessor, so most of the GPU would be idle.
"""

from __future__ import annotations

from typing import Final

from opwright_cuda.launch.indexing import Layout
from opwright_cuda.products.product import Product

TILE: Final = 64
"""Expected number of rows and columns of the tiles of cuBLASLt."""

IDLE: Final = 8
"""A product is split if it has at most one tile per this many multiprocessors."""

LEAST: Final = 1024
"""Minimum length of a split sum."""

LEAST_PART: Final = 128
"""Minimum steps of a part."""


def count_parts(product: Product, multiprocessors: int, allows_tf32: bool) -> int:
    """Return into how many equal parts the sums of a product are split; 1 means no splitting.

    Parameters
    ----------
    product : Product
        Its shapes. Parts are matrices only if steps of the sum are rows of both operands.
    multiprocessors : int
        Number of multiprocessors of the GPU.
    allows_tf32 : bool
        Whether float32 may be rounded to TF32: such products are not split.
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
    """Return the batched product [parts, m, n]; its sum over the parts is the original product."""
    m, n, k = product.m, product.n, product.k // parts
    stacks = Layout((parts,), ((k * m,), (k * n,), (m * n,)))
    return product._replace(k=k, stacks=stacks)
