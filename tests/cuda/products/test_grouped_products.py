"""Grouped products on a GPU, with groups that span several tiles, and invalid offsets."""

from __future__ import annotations

import numpy as np
import pytest
from calls import call

from opwright.errors import KernelError
from opwright.op import dtype_to_numpy

pytestmark = pytest.mark.cuda_kernels

RNG = np.random.default_rng(5)
N, K, M = 300, 70, 130
ENDS = [[64, 64, 193, 200, 300], [1, 128, 256], [0, 0], [300]]


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize(("dtype", "index"), [("float32", "int32"), ("bfloat16", "int64")])
@pytest.mark.parametrize("transpose", [False, True])
def test_groups_of_any_size_are_multiplied(
    ends: list[int], dtype: str, index: str, transpose: bool
) -> None:
    x = RNG.integers(-4, 5, (N, K)).astype(dtype_to_numpy(dtype))
    shape = (len(ends), M, K) if transpose else (len(ends), K, M)
    weight = RNG.integers(-4, 5, shape).astype(x.dtype)
    inputs = {"x": x, "weight": weight, "offsets": np.array(ends, index)}
    on_gpu, on_cpu = (
        call("grouped_matmul", inputs, device=device, transpose_weight=transpose)[0]
        for device in ("cuda", "cpu")
    )
    np.testing.assert_array_equal(on_gpu, on_cpu)


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize(("dtype", "index"), [("float64", "int64"), ("float16", "int32")])
def test_outer_products_of_groups_of_any_size_are_summed(
    ends: list[int], dtype: str, index: str
) -> None:
    x, y = (RNG.integers(-2, 3, (N, width)).astype(dtype) for width in (K, M))
    inputs = {"x": x, "y": y, "offsets": np.array(ends, index)}
    on_gpu, on_cpu = (call("grouped_outer", inputs, device=device)[0] for device in ("cuda", "cpu"))
    np.testing.assert_array_equal(on_gpu, on_cpu)


@pytest.mark.parametrize(("ends", "wrong"), [([5, 3], 3), ([-1, 5], -1), ([4, 7], 7)])
@pytest.mark.parametrize("op_type", ["grouped_matmul", "grouped_outer"])
def test_offsets_that_do_not_ascend_are_reported(op_type: str, ends: list[int], wrong: int) -> None:
    x = np.ones((6, 2), np.float32)
    other = np.ones((2, 2, 3), np.float32) if op_type == "grouped_matmul" else x
    slot = "weight" if op_type == "grouped_matmul" else "y"
    inputs = {"x": x, slot: other, "offsets": np.array(ends, np.int32)}
    message = rf"{op_type}: offsets must ascend in \[0, 6\], got {wrong}; pass the row"
    with pytest.raises(KernelError, match=message):
        call(op_type, inputs)
