"""Matrix products by cuBLASLt: reasons to refuse a product, and descriptions of products.

cuBLASLt expects column-major matrices, but ours are row-major. Therefore, cuBLASLt computes the
transpose, outT = yT xT, without moving any matrix. The A of cuBLASLt is our y, its B is our x, and
its m is our n.

Float32 factors are multiplied in float32. With the option ``cuda.allow_tf32``, they are rounded to
TF32 (10 bits of fraction), because tensor cores multiply TF32 many times faster.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from opwright.errors import MissingRequirementError
from opwright_cuda import native
from opwright_cuda.dtypes import ITEM_BYTES
from opwright_cuda.launch import LaunchPlan, Pointer
from opwright_cuda.launch.indexing import Layout
from opwright_cuda.products.product import Operands, Product

MAX_PRODUCTS: Final = 16
"""Maximum calls of cuBLASLt for one product with several broadcast batch dimensions."""

MAX_EXTENT: Final = 2**31 - 1
"""Maximum rows, columns and batch size of cuBLASLt."""

MOST_TRIED: Final = 8
"""Maximum number of algorithms to try for a product, in the order that cuBLASLt recommends."""

_ALIGNMENT: Final = 256  # alignment of every tensor in bytes


class Epilogue(IntEnum):
    """The epilogues of cuBLASLt, ``cublasLtEpilogue_t``.

    The relu epilogue is not used, because it maps NaN to 0 and would hide divergence.
    """

    DEFAULT = 1
    BIAS = 4


_DATA_TYPES: Final = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32F_FAST_TF32 = 68, 70, 77  # cublasComputeType_t


class Numbers(NamedTuple):
    """The numbers of one product, in the order of ``ProductSpec::Number`` of native/blas/blas.h."""

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
    out_type: int
    compute_type: int
    scale_type: int
    epilogue: int
    accumulates: int
    alignment: int
    workspace: int
    most_tried: int


def product_scratch(plan: LaunchPlan, product: Product) -> Pointer:
    """Return the workspace for cuBLASLt; consecutive products may share it."""
    return plan.workspace(workspace_limit(product, plan.gpu.capability))


def add_product(
    plan: LaunchPlan, product: Product, operands: Operands, scratch: Pointer | None = None
) -> None:
    """Add a product by cuBLASLt; the product must be neither empty nor refused.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    product : Product
        Its shapes; k is at least 1.
    operands : Operands
        A bias, [n], is added before a sum is rounded and stored.
    scratch : Pointer, optional
        Memory from `product_scratch` of a product of the same shapes.

    Raises
    ------
    MissingRequirementError
        If cuBLASLt is not installed.
    """
    tell_blas_path()
    limit = workspace_limit(product, plan.gpu.capability)
    workspace = scratch or product_scratch(plan, product)
    epilogue = Epilogue.DEFAULT if operands.bias is None else Epilogue.BIAS
    most_tried = MOST_TRIED if plan.tunes else 1
    numbers = product_numbers(product, epilogue, limit, plan.allows_tf32, most_tried)
    size, out_size = ITEM_BYTES[product.dtype], ITEM_BYTES[product.out_dtype]
    for x, y, out in _offsets(product):
        left, right = operands.x + x * size, operands.y + y * size
        plan.product(
            numbers, [right, left, operands.out + out * out_size, operands.bias, workspace]
        )


def find_refusal(product: Product) -> str | None:
    """Return why cuBLASLt cannot compute a product, or None if it can, or if out is empty."""
    if product.is_empty:
        return None
    if max(product.m, product.n, product.k, product.n_stacked) > MAX_EXTENT:
        return f"cuBLASLt multiplies up to {MAX_EXTENT} rows, columns and matrices"
    n_calls = product.n_stacked // max(product.stacks.dims, default=1)
    if n_calls > MAX_PRODUCTS:
        return f"the batch dimensions broadcast in a way that needs {n_calls} products of cuBLASLt"
    return None


def product_numbers(
    product: Product, epilogue: Epilogue, workspace: int, allows_tf32: bool, most_tried: int = 1
) -> Numbers:
    """Describe a product for cuBLASLt; the longest batch dimension becomes the cuBLASLt batch."""
    m, n, k, transpose_x, transpose_y, stacks, dtype, out_dtype = product
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
        out_type=_DATA_TYPES[out_dtype],
        compute_type=compute_type,
        scale_type=scale_type,
        epilogue=int(epilogue),
        accumulates=0,
        alignment=_alignment_of(product),
        workspace=workspace,
        most_tried=most_tried,
    )


def workspace_limit(product: Product, capability: tuple[int, int]) -> int:
    """Return the workspace size for cuBLASLt, as NVIDIA suggests, or less for a small product.

    The workspace stores partial sums, so more than a few times the size of out would be useless.
    """
    most = 2**25 if capability >= (9, 0) else 2**22
    n_sums = product.m * product.n * product.n_stacked
    return min(most, max(2**16, 32 * n_sums * 4))


def _batch_axis(stacks: Layout) -> int | None:
    dims = stacks.dims
    return dims.index(max(dims)) if dims else None


def _offsets(product: Product) -> Iterator[tuple[int, ...]]:
    """Yield the offsets of x, y and out of each call, in elements."""
    stacks = product.stacks
    axis = _batch_axis(stacks)
    others = [range(1 if i == axis else dim) for i, dim in enumerate(stacks.dims)]
    for places in itertools.product(*others):
        yield tuple(
            sum(place * stride for place, stride in zip(places, strides, strict=True))
            for strides in stacks.strides
        )


def _alignment_of(product: Product) -> int:
    """Return the common alignment of every matrix of every call, in bytes."""
    strides = itertools.chain(*product.stacks.strides)
    return math.gcd(_ALIGNMENT, *(stride * ITEM_BYTES[product.dtype] for stride in strides))


def tell_blas_path() -> None:
    """Find cuBLASLt and set its path unless the path is already set.

    Raises
    ------
    MissingRequirementError
        If it is not installed.
    """
    if native.has_blas_path():
        return
    try:
        from cuda import pathfinder

        found = pathfinder.load_nvidia_dynamic_lib("cublasLt")
    except (ImportError, RuntimeError) as error:  # the latter if the library is missing
        reason = str(error).partition("\n")[0].partition(": ")[0]  # omits the searched folders
        raise MissingRequirementError(
            f"CUDA: matrix products need cuBLASLt, got {type(error).__name__}: {reason}; "
            'pip install "nvidia-cublas>=13"'
        ) from error
    native.set_blas_path(found.abs_path or "libcublasLt.so.13")
