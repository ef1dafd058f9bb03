"""Criteria and tiling for small matrix products by our own kernel.

cuBLASLt is optimized for large products. For a product that takes a microsecond, cuBLASLt either
computes few tiles, each with a long chain of reads, or clears memory and adds parts in separate
launches.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.launch import LaunchPlan, Pointer, Struct
from opwright_cuda.products.product import Operands, Product
from opwright_cuda.source import own_source

WORK: Final = 2**18
"""Maximum multiplications of a small product per multiprocessor, about a microsecond."""

MAX_ROWS: Final = 2**19
"""Maximum m, n and k: offsets a few thousand rows beyond a matrix still fit in 32 bits."""

MAX_STACK: Final = 65_535
"""Maximum batch size: blocks of a grid in its second direction."""

_SIDE: Final = 4  # ``kSide`` of small_products.h
_LANES: Final = 32
_WARPS, _MANY_WARPS = 8, 16
_VECTOR_BYTES: Final = 16


class Tile(NamedTuple):
    """The partition of the sums of a block among its threads, ``SmallTile`` of small_products.h."""

    row_lanes: int
    column_lanes: int
    warps: int = _WARPS

    @property
    def rows(self) -> int:
        """Rows of out."""
        return self.row_lanes * _SIDE

    @property
    def columns(self) -> int:
        """Columns of out."""
        return self.column_lanes * _SIDE

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return self.warps * _LANES

    @property
    def steps(self) -> int:
        """Number of steps of the inner dimension that a block processes together."""
        return self.threads // (self.row_lanes * self.column_lanes) * _SIDE

    @property
    def ctype(self) -> str:
        """The C++ name of the tile."""
        return f"SmallTile<{self.row_lanes}, {self.column_lanes}, {self.warps}>"

    def tiles_of(self, m: int, n: int) -> int:
        """Return the number of tiles for m rows and n columns."""
        return -(-m // self.rows) * -(-n // self.columns)

    @property
    def reads_ahead(self) -> bool:
        """Whether a thread prefetches while it multiplies, ``kReadsAhead`` of the tile."""
        return self.rows * self.columns < 256


TILES: Final = (Tile(4, 8), Tile(4, 4), Tile(2, 4), Tile(1, 2))
"""Tiles from the largest, which reads least, to the smallest, which splits most."""

LONG_TILES: Final = (Tile(2, 4, _MANY_WARPS), Tile(1, 2, _MANY_WARPS))
"""Tiles for long sums, whose warps keep more reads in flight; too large for float64."""


class Side(NamedTuple):
    """One operand, ``SmallSide`` of small_products.h.

    Attributes
    ----------
    goes_along_steps : bool
        Whether adjacent steps of the inner dimension are adjacent in memory.
    width : int
        Elements per vector read.
    """

    goes_along_steps: bool
    width: int

    @property
    def arguments(self) -> str:
        """The arguments of the template."""
        return f"{'true' if self.goes_along_steps else 'false'}, {self.width}"


def find_small_refusal(
    product: Product, multiprocessors: int, allows_tf32: bool = False
) -> str | None:
    """Return why a product does not count as small, or None if it does.

    Parameters
    ----------
    product : Product
        Its shapes.
    multiprocessors : int
        The number that the GPU has.
    allows_tf32 : bool
        Whether float32 may be rounded to TF32.
    """
    if product.dtype not in _dtypes(allows_tf32) or product.out_dtype != product.dtype:
        return f"cuBLASLt multiplies {product.dtype} by tensor cores here"
    most = WORK * multiprocessors
    extents = (product.m, product.n, product.k, product.n_stacked)
    work = math.prod(max(extent, 1) for extent in extents)
    if work > most:
        return f"a small product has up to {most} multiplications on this GPU, got {work}"
    if max(product.m, product.n, product.k) > MAX_ROWS:
        return f"a small product has up to {MAX_ROWS} rows, columns and steps, got {extents}"
    if len(product.stacks.dims) > 1:
        return "the batch broadcasts in more than one dimension"
    if product.n_stacked > MAX_STACK:
        return f"a stack has up to {MAX_STACK} matrices, got {product.n_stacked}"
    return None


def _dtypes(allows_tf32: bool) -> tuple[str, ...]:
    """Return the dtypes that tensor cores do not speed up."""
    return ("float64",) if allows_tf32 else ("float32", "float64")


def choose_tile(product: Product, multiprocessors: int, n_others: int | None = None) -> Tile:
    """Return the fastest tile by `estimate_cycles`, and the largest of equally fast tiles.

    Parameters
    ----------
    product : Product
        Its shapes.
    multiprocessors : int
        The number that the GPU has.
    n_others : int, optional
        Number of other blocks in the same launch; None if the launch has only this product.
    """
    is_long = n_others is None and product.dtype == "float32"
    tiles = TILES + LONG_TILES if is_long else TILES
    return min(tiles, key=lambda tile: estimate_cycles(tile, product, multiprocessors, n_others))


def estimate_cycles(
    tile: Tile, product: Product, multiprocessors: int, n_others: int | None = None
) -> int:
    """Estimate the cycles of a product from its rounds of reads, bound by latency or throughput.

    A read from L2 takes about 600 cycles, and half as long with prefetching. A warp's 8 reads of 16
    bytes per lane occupy the load unit for 32 cycles. Registers limit the number of resident
    blocks.
    """
    blocks = tile.tiles_of(product.m, product.n) * product.n_stacked + (n_others or 0)
    each = -(-blocks // multiprocessors)
    at_once = 4 if n_others is None and not tile.reads_ahead else 16 // tile.warps
    waiting = (350 if tile.reads_ahead else 600) * -(-each // at_once)
    loading = each * tile.warps * 8 * ITEM_BYTES[product.dtype]
    rounds = -(-product.k // tile.steps)
    return rounds * max(waiting, loading) + each * (100 + 25 * tile.warps)


def add_small_product(
    plan: LaunchPlan, product: Product, operands: Operands, activation: str = "Identity"
) -> None:
    """Add a product by our kernel for small products, with a bias and an activation.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend; nothing is added if out has no elements.
    product : Product
        Its shapes, which must not have been refused; an empty sum is 0.
    operands : Operands
        A bias, [n], is added to every row of sums.
    activation : str
        A unary functor of functions.h, which is applied to the sums.
    """
    if product.is_empty:
        return
    tile = choose_tile(product, plan.gpu.multiprocessors)
    steps = [strides[0] if strides else 0 for strides in product.stacks.strides]
    left, right = sides_of(product, operands)
    sizes = Struct(np.array([product.m, product.n, product.k, *steps[:2]], np.int32))
    expression = (
        f"multiply_small<{CTYPES[product.dtype]}, {tile.ctype}, {left.arguments}, "
        f"{right.arguments}, {activation}>"
    )
    grid = tile.tiles_of(product.m, product.n), product.n_stacked
    arguments = [operands.out, operands.x, operands.y, operands.bias, sizes]
    plan.launch(own_source("small_products.cu"), expression, grid, tile.threads, arguments)


def sides_of(product: Product, operands: Operands) -> tuple[Side, Side]:
    """Return the sides x and y."""
    m, n, k, transpose_x, transpose_y, stacks, dtype, _ = product
    of_x, of_y, _ = stacks.strides
    x = m if transpose_x else k
    y = k if transpose_y else n
    return (
        Side(not transpose_x, _width(dtype, operands.x, x, *of_x)),
        Side(transpose_y, _width(dtype, operands.y, y, *of_y)),
    )


def _width(dtype: str, pointer: Pointer, *strides: int) -> int:
    """Return the vector width that a matrix allows."""
    size = ITEM_BYTES[dtype]
    places = (stride * size for stride in strides)
    return max(math.gcd(_VECTOR_BYTES, pointer.offset, *places) // size, 1)
