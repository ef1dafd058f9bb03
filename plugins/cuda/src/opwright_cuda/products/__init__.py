"""Matrix products: cuBLASLt's, and our own kernel's where it refuses."""

from opwright_cuda.products.blas import add_product, find_refusal, tell_blas_path
from opwright_cuda.products.either import add_either_product, repeated_product
from opwright_cuda.products.product import Operands, Product, describe_product
from opwright_cuda.products.tiles import PRODUCT_THREADS, TILE, TILE_SUMS, add_own_product

__all__ = [
    "PRODUCT_THREADS",
    "TILE",
    "TILE_SUMS",
    "Operands",
    "Product",
    "add_either_product",
    "add_own_product",
    "add_product",
    "describe_product",
    "find_refusal",
    "repeated_product",
    "tell_blas_path",
]
