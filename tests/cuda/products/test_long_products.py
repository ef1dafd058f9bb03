"""Matrix products with few tiles and long sums are split; test_products.py checks their results."""

from __future__ import annotations

import pytest

from opwright_cuda.products import count_parts, describe_product

SMS = 132


@pytest.mark.parametrize(
    ("x", "y", "turned", "parts"),
    [
        ((2048, 128), (2048, 384), (True, False), 8),  # 12 tiles
        ((2048, 128), (2048, 512), (True, False), 8),  # 16 tiles
        ((2048, 128), (2048, 513), (True, False), 1),  # 18 tiles
        ((2048, 1), (2048, 1), (True, False), 16),  # a part has at least 128 steps
        ((1024 + 512, 64), (1024 + 512, 64), (True, False), 8),
        ((1025, 64), (1025, 64), (True, False), 1),
        ((1023, 64), (1023, 64), (True, False), 1),
        ((128, 2048), (2048, 384), (False, False), 1),  # the parts would not be matrices
        ((2048, 128), (384, 2048), (True, True), 1),
        ((2, 2048, 128), (2, 2048, 384), (True, False), 1),
        ((2048, 0), (2048, 384), (True, False), 1),
    ],
)
def test_long_products_are_split_along_their_sums(
    x: tuple[int, ...], y: tuple[int, ...], turned: tuple[bool, bool], parts: int
) -> None:
    product = describe_product(x, y, *turned, "float32")
    assert count_parts(product, SMS, allows_tf32=False) == parts
    assert count_parts(product, SMS, allows_tf32=True) == 1
    assert count_parts(product._replace(dtype="float64"), SMS, allows_tf32=False) == 1
    assert count_parts(product, 7, allows_tf32=False) == 1
