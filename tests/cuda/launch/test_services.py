"""opwright-cuda provides services to the native libraries of other packages."""

from __future__ import annotations

import ctypes

import pytest

from opwright.errors import KernelError
from opwright_cuda import Source
from opwright_cuda.services import count_gpus, load_kernel, services_address
from opwright_cuda.source import shared_headers

pytestmark = pytest.mark.cuda_kernels

TEXT = '#include "kernel.h"\n__global__ void twice(float* x) { *x *= 2; }\n'
SOURCE = Source("twice.cu", TEXT, shared_headers())


class Table(ctypes.Structure):
    """The first members of ``opwright_cuda_services``."""

    _fields_ = (
        ("size", ctypes.c_uint64),
        ("find", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)),
        ("functions", ctypes.c_void_p * 6),
    )


def test_the_table_looks_up_driver_functions() -> None:
    table = Table.from_address(services_address())
    assert table.size == ctypes.sizeof(Table)
    assert all(table.functions)
    address = table.find(b"cuDeviceGetCount")
    count = ctypes.c_int()
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))(address)
    assert function(ctypes.byref(count)) == 0
    assert count.value == count_gpus()
    assert table.find(b"cuNothingOfThisName") is None


def test_a_kernel_is_compiled_once() -> None:
    handle = load_kernel(SOURCE, "twice", 0)
    assert handle != 0
    assert load_kernel(SOURCE, "twice", 0) == handle


def test_a_kernel_that_does_not_compile_reports_the_reason() -> None:
    with pytest.raises(KernelError, match="thrice"):
        load_kernel(SOURCE, "thrice", 0)
