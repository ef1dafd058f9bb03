"""Parameter updates on a GPU match the CPU, for one or many parameters."""

from __future__ import annotations

import numpy as np
import pytest
from updates import KINDS, SHAPES, update

pytestmark = pytest.mark.cuda_kernels

SCALARS = ("float32", "float64")
"""The dtypes of powers and steps, in turn."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_is_bitwise_identical_to_the_update_on_the_cpu(kind: str, dtype: str) -> None:
    on_gpu, on_cpu = (
        update(d, kind, SHAPES, dtype, [], scalars=SCALARS)[0] for d in ("cuda", "cpu")
    )
    # The GPU computes powers of the step with the CUDA pow, and the CPU with pow of the C library.
    ulps = 8 if kind == "radam" and dtype == "float64" else 0
    for name, value in on_cpu.items():
        np.testing.assert_array_max_ulp(on_gpu[name], value, ulps)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_in_16_bits_equals_an_update_in_32_bits_rounded_once(
    kind: str, dtype: str
) -> None:
    shapes = ((1,), (1031,))
    got, wide = (
        update("cuda", kind, shapes, d, [], steps=1, drawn=dtype, scalars=SCALARS)[0]
        for d in (dtype, "float32")
    )
    for name, value in wide.items():
        np.testing.assert_array_equal(got[name], value.astype(got[name].dtype), err_msg=name)
