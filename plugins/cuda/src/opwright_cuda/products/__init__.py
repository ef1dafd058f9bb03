"""Matrix products by cuBLASLt, or by our own kernels if they are small or unsupported."""

from opwright_cuda.products.blas import add_product, find_refusal, tell_blas_path
from opwright_cuda.products.either import add_either_product, repeated_product
from opwright_cuda.products.layer import LayerGrads, add_layer_grads, find_layer_refusal
from opwright_cuda.products.long import count_parts, cut_product, equal_parts
from opwright_cuda.products.product import Operands, Product, describe_product
from opwright_cuda.products.small import add_small_product, find_small_refusal
from opwright_cuda.products.tiles import PRODUCT_THREADS, TILE, TILE_SUMS, add_own_product

__all__ = [
    "PRODUCT_THREADS",
    "TILE",
    "TILE_SUMS",
    "LayerGrads",
    "Operands",
    "Product",
    "add_either_product",
    "add_layer_grads",
    "add_own_product",
    "add_product",
    "add_small_product",
    "count_parts",
    "cut_product",
    "describe_product",
    "equal_parts",
    "find_layer_refusal",
    "find_refusal",
    "find_small_refusal",
    "repeated_product",
    "tell_blas_path",
]
