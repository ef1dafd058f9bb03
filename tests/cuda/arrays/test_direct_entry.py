"""Plans on a GPU that native code runs on memory and a stream of its own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opwright as ow
from native_code import run_directly
from opwright.device import get_device
from opwright.runtime import Tensor

pytestmark = pytest.mark.cuda_kernels

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)


@pytest.fixture
def driver(gpu: Any) -> ctypes.CDLL:
    """Give the emulated driver, which does what is enqueued only when someone waits for it."""
    if gpu is None:
        pytest.skip("on a GPU the driver is not called from here")
    return ctypes.CDLL(os.environ["OPWRIGHT_CUDA_DRIVER"])


@pytest.fixture
def stream(driver: ctypes.CDLL) -> Iterator[ctypes.c_void_p]:
    """Give a stream of the caller."""
    made = ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(made), 1) == 0
    yield made
    driver.cuStreamDestroy_v2(made)


def test_work_is_in_the_order_of_the_stream(driver: Any, stream: ctypes.c_void_p) -> None:
    device = get_device("cuda", ow.current_context())
    feed, result = (Tensor.from_numpy(np.full_like(X, np.nan), device) for _ in range(2))
    network = ow.Network([ow.Operator("add", x="x", y="x", out="out")])
    call = network.compile(["x"], ["out"], device="cuda", scope=ow.Scope(), fetch_device=True)
    plan = call.plan_for({"x": feed}).lowered.plan
    size = ctypes.c_size_t(X.nbytes)
    for turn in (1, 2, 3):
        new, there = np.ascontiguousarray(turn * X), np.empty_like(X)
        source, target = ctypes.c_void_p(new.ctypes.data), ctypes.c_uint64(feed.data_ptr)
        assert driver.cuMemcpyHtoDAsync_v2(target, source, size, stream) == 0
        assert run_directly(plan, [feed.data_ptr], [result.data_ptr], stream.value) == ""
        source, target = ctypes.c_uint64(result.data_ptr), ctypes.c_void_p(there.ctypes.data)
        assert driver.cuMemcpyDtoHAsync_v2(target, source, size, stream) == 0
        assert driver.cuStreamSynchronize(stream) == 0
        np.testing.assert_array_equal(there, 2 * turn * X)
