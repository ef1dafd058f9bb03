"""Tiled matrix products by our own kernel, for any dtype and batch, even if cuBLASLt refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from opwright_cuda.dtypes import CTYPES
from opwright_cuda.launch import Argument, LaunchPlan, Struct
from opwright_cuda.launch.indexing import MAX_RANK
from opwright_cuda.products.product import Operands, Product
from opwright_cuda.source import own_source

TILE: Final = 64
"""Rows and columns that one block of our kernel computes; ``SquareTile`` of tiles.h."""

TILE_SUMS: Final = 4096
"""Number of elements in a tile of any shape; ``kTileSums`` of tiles.h."""

PRODUCT_THREADS: Final = 256
"""``kProductThreads`` of tiles.h."""


def add_own_product(plan: LaunchPlan, product: Product, operands: Operands) -> None:
    """Add a product by our own kernel, for any dtype, k and batch.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    product : Product
        Its shapes.
    operands : Operands
        The operands, without a bias.
    """
    if product.is_empty:
        return
    m, n, k, transpose_x, transpose_y, stacks, dtype, out_dtype = product
    rows, columns = (1, m) if transpose_x else (k, 1)
    struct = Struct(
        np.array([m, n, k], np.int64),
        np.array([rows, columns, *_reversed(stacks.strides[0], 0)], np.int64),
        np.array(
            [*((1, k) if transpose_y else (n, 1)), *_reversed(stacks.strides[1], 0)], np.int64
        ),
        np.array(_reversed(stacks.dims, 1), np.uint32),
        np.int32(len(stacks.dims)),
    )
    tiles = -(-m // TILE) * -(-n // TILE) * product.n_stacked
    arguments: list[Argument] = [operands.out, operands.x, operands.y, struct]
    expression = f"multiply<{CTYPES[out_dtype]}, {CTYPES[dtype]}>"
    plan.launch(own_source("products.cu"), expression, tiles, PRODUCT_THREADS, arguments)


def _reversed(numbers: Sequence[int], rest: int) -> list[int]:
    """Return the numbers in reverse order, padded to the maximum rank of kernel.h."""
    return [*reversed(numbers), *[rest] * (MAX_RANK - len(numbers))]
