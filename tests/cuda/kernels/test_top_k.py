"""Tests top-k on a GPU with all line lengths, ties, and lines too long for shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call

from opwright.errors import KernelError
from opwright.op import dtype_to_numpy
from opwright_std.operators.top_k import ranked

pytestmark = pytest.mark.cuda_kernels

RNG = np.random.default_rng(6)


def check(x: Any, k: int, **attrs: Any) -> None:
    """Compare top-k with a stable sort."""
    axis, largest = attrs.get("axis", -1), attrs.get("largest", True)
    out, places = call("top_k", {"x": x}, "out indices", k=k, **attrs)
    order = x.astype(np.float32) if x.dtype.name == "bfloat16" else x
    expected = ranked(order, axis, largest).take(range(k), axis=axis)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(
        out.view(f"u{out.itemsize}"), np.take_along_axis(x, expected, axis).view(f"u{x.itemsize}")
    )


DTYPES = ("bfloat16", "float16", "float32", "float64", "int8", "uint32", "int64", "uint64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_top_k_supports_lines_of_all_lengths(largest: bool, dtype: str) -> None:
    kind = dtype_to_numpy(dtype)
    for shape, k, axis in (((3, 40), 40, 1), ((2, 700, 2), 9, 1), ((2, 2500), 5, -1)):
        x = RNG.integers(-100, 100, shape).astype(kind)  # contains many equal values
        check(x, k, axis=axis, largest=largest)


@pytest.mark.parametrize("k", [1, 600, 2500, 5000])
def test_long_lines_return_any_number_of_elements(k: int) -> None:
    check(RNG.standard_normal((2, 5000)).astype(np.float32), k)
    check(RNG.integers(0, 40, (2, 5000)), k)


@pytest.mark.parametrize("n", [9, 3000])
@pytest.mark.parametrize("largest", [True, False])
def test_nan_is_greater_than_every_number_and_zeros_are_equal(n: int, largest: bool) -> None:
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -np.nan, 1e-45, -1e-45, 1.0])
    x = np.resize(special, n).astype(np.float32)
    check(x[None], min(n, 2100), largest=largest)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_the_gradient_of_top_k_is_scattered_to_the_source_elements(dtype: str) -> None:
    x = RNG.standard_normal((2, 300, 3)).astype(dtype_to_numpy(dtype))
    out, places = call("top_k", {"x": x}, "out indices", k=7, axis=1)
    (grad,) = call(
        "top_k_grad", {"x": x, "indices": places, "out_grad": out}, "x_grad", k=7, axis=1
    )
    expected = np.zeros_like(x)
    np.put_along_axis(expected, places, out, 1)
    np.testing.assert_array_equal(grad, expected)


@pytest.mark.parametrize("value", [-1, 3, 2**62, -(2**63)])
def test_an_index_outside_of_the_line_is_reported(value: int) -> None:
    x, places = np.ones((2, 3), np.float32), np.array([[0], [value]])
    inputs = {"x": x, "indices": places, "out_grad": np.ones((2, 1), np.float32)}
    with pytest.raises(KernelError, match=rf"top_k_grad: indices must be in \[0, 3\), got {value}"):
        call("top_k_grad", inputs, "x_grad", k=1)
