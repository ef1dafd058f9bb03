"""Arrays with the DLPack exchange API are read and written in stream order."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opwright as ow
from dl_tensor import DLTensor
from opwright._runtime import Tensor
from opwright.device import get_device

pytestmark = pytest.mark.cuda_kernels

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
CUDA = 2  # kDLCUDA


class _Managed(ctypes.Structure):
    _fields_ = [
        *(("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)),
        *((name, ctypes.c_void_p) for name in ("context", "deleter")),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def _lend(address: int, out: Any) -> int:
    array = ctypes.cast(address, ctypes.py_object).value
    array.shape_now = (ctypes.c_int64 * 2)(*X.shape)
    tensor = DLTensor(array.memory.data_ptr, CUDA, 0, 2, 2, 32, 1, array.shape_now, None, 0)
    array.managed = _Managed(1, 3, None, None, 0, tensor)
    out[0] = ctypes.addressof(array.managed)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def _find_stream(code: int, number: int, out: Any) -> int:
    out[0] = Exchanged.stream
    return 0


class _Api(ctypes.Structure):
    _fields_ = [
        *(("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)),
        *((name, ctypes.c_void_p) for name in ("older", "allocate", "lend", "take", "view")),
        ("stream", ctypes.c_void_p),
    ]


_NAME = b"dlpack_exchange_api"  # a capsule stores only the address of its name
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api = _Api(
    *(1, 3, None, None, ctypes.cast(_lend, ctypes.c_void_p), None, None),
    ctypes.cast(_find_stream, ctypes.c_void_p),
)


class Exchanged:
    """An array with the PyTorch interface; `stream` is the stream of its library, or None."""

    __dlpack_c_exchange_api__ = _new_capsule(ctypes.addressof(_api), _NAME, None)
    stream: int | None = None

    def __init__(self, array: Any) -> None:
        self.memory = Tensor.from_numpy(array, get_device("cuda", ow.current_context()))

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, **options: Any) -> object:
        raise AssertionError("the exchange API must be used first")


@pytest.fixture
def driver(gpu: Any) -> ctypes.CDLL:
    """Return the emulated driver, which executes enqueued work only on synchronization."""
    if gpu is None:
        pytest.skip("tests/cuda/on_gpu tests streams of CuPy and PyTorch on a GPU")
    return ctypes.CDLL(os.environ["OPWRIGHT_CUDA_DRIVER"])


@pytest.fixture(params=["default", "own"])
def stream(driver: ctypes.CDLL, request: Any) -> Iterator[int | None]:
    """Provide a stream of the third-party library."""
    made = ctypes.c_void_p()
    if request.param == "own":
        assert driver.cuStreamCreate(ctypes.byref(made), 1) == 0
    Exchanged.stream = made.value
    yield made.value
    Exchanged.stream = None
    if made:
        driver.cuStreamDestroy_v2(made)


def double(**options: Any) -> Any:
    network = ow.Network([ow.Operator("add", x="x", y="x", out="out")])
    return network.compile(["x"], ["out"], device="cuda", scope=ow.Scope(), **options)


def test_a_feed_is_read_after_pending_work_of_its_library(driver: Any, stream: int | None) -> None:
    call = double()
    for turn in (1, 2, 3):
        x = Exchanged(np.full_like(X, np.nan))
        new = np.ascontiguousarray(turn * X)
        target, source = ctypes.c_uint64(x.memory.data_ptr), ctypes.c_void_p(new.ctypes.data)
        size = ctypes.c_size_t(new.nbytes)
        assert driver.cuMemcpyHtoDAsync_v2(target, source, size, ctypes.c_void_p(stream)) == 0
        np.testing.assert_array_equal(call(x)[0], 2 * turn * X)


def test_a_fetch_is_passed_in_stream_order(driver: Any, stream: int | None) -> None:
    call = double(fetch_device=True)
    for turn in (1, 2, 3):
        (out,) = call(turn * X)
        out.__dlpack__(stream=1 if stream is None else stream)  # 1: CUDA's default stream
        there = np.empty_like(X)
        target, source = ctypes.c_void_p(there.ctypes.data), ctypes.c_uint64(out.data_ptr)
        size, on = ctypes.c_size_t(X.nbytes), ctypes.c_void_p(stream)
        assert driver.cuMemcpyDtoHAsync_v2(target, source, size, on) == 0
        assert driver.cuStreamSynchronize(on) == 0
        np.testing.assert_array_equal(there, 2 * turn * X)


def test_a_fetch_is_written_into_an_array_of_the_library(driver: Any, stream: int | None) -> None:
    call, out = double(fetch_device=True), Exchanged(0 * X)
    for turn in (1, 2, 3):
        assert call(turn * X, out=[out])[0] is out
        there = (ctypes.c_float * X.size).from_address(out.memory.data_ptr)
        np.testing.assert_array_equal(np.reshape(there, X.shape), 2 * turn * X)


def test_a_graph_writes_a_feed_on_the_gpu(driver: Any, stream: int | None) -> None:
    network = ow.Network([ow.Operator("add", x="mean", y="x", out="mean")])
    call = network.compile(["mean", "x"], [], "cuda", ow.Scope(), writes=["mean"])
    means = [Exchanged(0 * X), Exchanged(0 * X)]
    for turn in (1, 2, 3):
        for mean in means:
            call(mean, X)
            np.testing.assert_array_equal(mean.memory.numpy(), turn * X)
    assert (len(call.plans), network.placement().graph_refusal) == (1, "")
