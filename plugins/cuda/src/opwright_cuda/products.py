"""Matrix products: what cuBLASLt is told of them, and the kernel that serves where it refuses.

cuBLASLt's matrices are column-major, ours row-major: it computes the transpose, outT = yT xT, in
which every matrix lies as it is. Its A is therefore our y, its B our x, its m our n.

Single precision is multiplied in single precision. With the option ``cuda.allow_tf32`` it is
rounded to TF32, 10 bits of fraction, before it is multiplied, which tensor cores do many times
faster.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from opwright.errors import MissingRequirementError
from opwright_cuda import native
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.indexing import MAX_RANK, Layout, broadcast_strides, compact_strides, merge
from opwright_cuda.launch import Argument, LaunchPlan, Pointer, Struct
from opwright_cuda.source import own_source

MAX_PRODUCTS: Final = 16
"""Calls of cuBLASLt for one product of stacks that broadcast in several dimensions."""

MAX_EXTENT: Final = 2**31 - 1
"""The most rows, columns and matrices in a stack that cuBLASLt takes."""

TILE: Final = 64
"""Rows and columns that one block of our own kernel computes; ``SquareTile`` of tiles.h."""

TILE_SUMS: Final = 4096
"""Elements of a tile of any shape; ``kTileSums`` of tiles.h."""

PRODUCT_THREADS: Final = 256
"""``kProductThreads`` of tiles.h."""

_ALIGNMENT: Final = 256  # of every tensor


class Epilogue(IntEnum):
    """What cuBLASLt does with a sum before it is stored: ``cublasLtEpilogue_t``.

    Its relu makes 0 of what is not a number, and would hide that a network has gone wrong.
    """

    DEFAULT = 1
    BIAS = 4


_DATA_TYPES: Final = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32F_FAST_TF32 = 68, 70, 77  # cublasComputeType_t


class Numbers(NamedTuple):
    """The numbers of one product, in the order of ``ProductSpec::Number`` of native/blas.h."""

    m: int
    n: int
    k: int
    transpose_a: int
    transpose_b: int
    leading_a: int
    leading_b: int
    leading_d: int
    batch: int
    stride_a: int
    stride_b: int
    stride_d: int
    data_type: int
    compute_type: int
    scale_type: int
    epilogue: int
    accumulates: int
    alignment: int
    workspace: int


class Product(NamedTuple):
    """out[s] = op(x[s]) @ op(y[s]), every matrix row-major and compact.

    Attributes
    ----------
    m, n, k : int
        Rows and columns of out, and the inner dimension.
    transpose_x, transpose_y : bool
        Whether x is stored as [k, m], and y as [n, k].
    stacks : Layout
        The dimensions of the stack, and the strides of x, y and out along them in elements.
    dtype : str
        Of all three.
    """

    m: int
    n: int
    k: int
    transpose_x: bool
    transpose_y: bool
    stacks: Layout
    dtype: str

    @property
    def n_stacked(self) -> int:
        """The number of matrices in the stack."""
        return math.prod(self.stacks.dims)

    @property
    def is_empty(self) -> bool:
        """Whether out has no elements."""
        return 0 in (self.m, self.n, self.n_stacked)


def describe_product(
    x: Sequence[int], y: Sequence[int], transpose_x: bool, transpose_y: bool, dtype: str
) -> Product:
    """Return the product of arrays of these shapes by NumPy's rules.

    A stack that one matrix y serves is made one tall matrix.
    """
    x, y = ((1, *x) if len(x) == 1 else tuple(x)), ((*y, 1) if len(y) == 1 else tuple(y))
    k, m = x[-2:] if transpose_x else (x[-1], x[-2])
    n = y[-2] if transpose_y else y[-1]
    dims = np.broadcast_shapes(x[:-2], y[:-2])
    of_x = [stride * m * k for stride in broadcast_strides(x[:-2], dims)]
    of_y = [stride * k * n for stride in broadcast_strides(y[:-2], dims)]
    of_out = [stride * m * n for stride in compact_strides(dims)]
    stacks = merge(dims, [of_x, of_y, of_out])
    tall = len(stacks.dims) == 1 and stacks.strides[1] == (0,) and stacks.strides[0] != (0,)
    if tall and not transpose_x:
        m, stacks = m * stacks.dims[0], Layout((), ((), (), ()))
    return Product(m, n, k, transpose_x, transpose_y, stacks, dtype)


# -- cuBLASLt --------------------------------------------------------------------------------------


class Operands(NamedTuple):
    """Where the operands of a product lie."""

    x: Pointer
    y: Pointer
    out: Pointer
    bias: Pointer | None = None


def add_product(plan: LaunchPlan, product: Product, operands: Operands) -> None:
    """Add a product by cuBLASLt; it must be neither empty nor refused.

    Parameters
    ----------
    plan : LaunchPlan
        Where it is added.
    product : Product
        Its shapes; k is at least 1.
    operands : Operands
        A bias, [n], is added before a sum is rounded and stored.

    Raises
    ------
    MissingRequirementError
        Where cuBLASLt is not installed.
    """
    tell_blas_path()
    limit = workspace_limit(product, plan.gpu.capability)
    workspace = plan.workspace(limit)
    epilogue = Epilogue.DEFAULT if operands.bias is None else Epilogue.BIAS
    numbers = product_numbers(product, epilogue, limit, plan.allows_tf32)
    size = ITEM_BYTES[product.dtype]
    for x, y, out in _offsets(product):
        left, right = operands.x + x * size, operands.y + y * size
        plan.product(numbers, [right, left, operands.out + out * size, operands.bias, workspace])


def find_refusal(product: Product) -> str | None:
    """Return why a product cannot be cuBLASLt's, None where it can or nothing is computed."""
    if product.is_empty:
        return None
    if max(product.m, product.n, product.k, product.n_stacked) > MAX_EXTENT:
        return f"cuBLASLt multiplies up to {MAX_EXTENT} rows, columns and matrices"
    n_calls = product.n_stacked // max(product.stacks.dims, default=1)
    if n_calls > MAX_PRODUCTS:
        return f"the stacks broadcast in a way that takes {n_calls} products of cuBLASLt"
    return None


def product_numbers(
    product: Product, epilogue: Epilogue, workspace: int, allows_tf32: bool
) -> Numbers:
    """Return what cuBLASLt is told: the longest dimension of the stack is its batch."""
    m, n, k, transpose_x, transpose_y, stacks, dtype = product
    axis = _batch_axis(stacks)
    stride_x, stride_y, stride_out = (
        (0, 0, 0) if axis is None else tuple(strides[axis] for strides in stacks.strides)
    )
    compute_type, scale_type = _COMPUTE_32F, _DATA_TYPES["float32"]
    if dtype == "float64":
        compute_type, scale_type = _COMPUTE_64F, _DATA_TYPES["float64"]
    elif dtype == "float32" and allows_tf32:
        compute_type = _COMPUTE_32F_FAST_TF32
    return Numbers(
        m=n,
        n=m,
        k=k,
        transpose_a=int(transpose_y),
        transpose_b=int(transpose_x),
        leading_a=k if transpose_y else n,
        leading_b=m if transpose_x else k,
        leading_d=n,
        batch=1 if axis is None else stacks.dims[axis],
        stride_a=stride_y,
        stride_b=stride_x,
        stride_d=stride_out,
        data_type=_DATA_TYPES[dtype],
        compute_type=compute_type,
        scale_type=scale_type,
        epilogue=int(epilogue),
        accumulates=0,
        alignment=_alignment_of(product),
        workspace=workspace,
    )


def workspace_limit(product: Product, capability: tuple[int, int]) -> int:
    """Return how many bytes cuBLASLt may have: what NVIDIA advises, less for a small product.

    It keeps partial sums there, so that a few times the size of out is all that can be used.
    """
    most = 2**25 if capability >= (9, 0) else 2**22
    n_sums = product.m * product.n * product.n_stacked
    return min(most, max(2**16, 32 * n_sums * 4))


def _batch_axis(stacks: Layout) -> int | None:
    dims = stacks.dims
    return dims.index(max(dims)) if dims else None


def _offsets(product: Product) -> Iterator[tuple[int, ...]]:
    """Give where x, y and out of each call begin, in elements."""
    stacks = product.stacks
    axis = _batch_axis(stacks)
    others = [range(1 if i == axis else dim) for i, dim in enumerate(stacks.dims)]
    for places in itertools.product(*others):
        yield tuple(
            sum(place * stride for place, stride in zip(places, strides, strict=True))
            for strides in stacks.strides
        )


def _alignment_of(product: Product) -> int:
    """Return what every matrix of every call begins at a multiple of, in bytes."""
    strides = itertools.chain(*product.stacks.strides)
    return math.gcd(_ALIGNMENT, *(stride * ITEM_BYTES[product.dtype] for stride in strides))


def tell_blas_path() -> None:
    """Find cuBLASLt and say where it is, unless that has been said.

    Raises
    ------
    MissingRequirementError
        Where it is not installed.
    """
    if native.has_blas_path():
        return
    try:
        from cuda import pathfinder

        found = pathfinder.load_nvidia_dynamic_lib("cublasLt")
    except (ImportError, RuntimeError) as error:  # the latter where the library is missing
        reason = str(error).partition("\n")[0].partition(": ")[0]  # then: where it looked
        raise MissingRequirementError(
            f"CUDA: matrix products need cuBLASLt, got {type(error).__name__}: {reason}; "
            'pip install "nvidia-cublas>=13"'
        ) from error
    native.set_blas_path(found.abs_path or "libcublasLt.so.13")


# -- our own kernel --------------------------------------------------------------------------------


def add_own_product(plan: LaunchPlan, product: Product, operands: Operands) -> None:
    """Add a product by our own kernel: of any dtype, k and stack.

    Parameters
    ----------
    plan : LaunchPlan
        Where it is added.
    product : Product
        Its shapes.
    operands : Operands
        Without a bias.
    """
    if product.is_empty:
        return
    m, n, k, transpose_x, transpose_y, stacks, dtype = product
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
    plan.launch(
        own_source("products.cu"), f"multiply<{CTYPES[dtype]}>", tiles, PRODUCT_THREADS, arguments
    )


def _reversed(numbers: Sequence[int], rest: int) -> list[int]:
    """The last one first, as many as kernel.h has room for."""
    return [*reversed(numbers), *[rest] * (MAX_RANK - len(numbers))]
