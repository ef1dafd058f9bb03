"""The GPU formulas in functors.h, compiled for the CPU, are accurate.

The emulator compiles the host half of the file. These tests compile the device half with functions
of the C library instead of device functions.
"""

from __future__ import annotations

import ctypes
import math
import subprocess

import numpy as np
import pytest

import opwright as ow

SOURCE = """
#include <cmath>
#define __CUDACC_RTC__
#define __device__
#define __forceinline__ inline
inline float __fdividef(float x, float y) { return x / y; }
inline double normcdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
#include "opwright/functors.h"
#define FUNCTION(name)                                                     \\
  extern "C" void name(const float* x, float* out, long n) {               \\
    for (long i = 0; i < n; ++i) out[i] = opwright::functors::name(x[i]);  \\
  }
FUNCTION(NormalCdf)
FUNCTION(Sigmoid)
FUNCTION(Softplus)
"""


@pytest.fixture(scope="module")
def functors(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("functors")
    source, library = folder / "functors.cc", folder / "functors.so"
    source.write_text(SOURCE)
    command = ["c++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{ow.get_include()}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def compute(functors: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (x, out))
    getattr(functors, name)(*pointers, ctypes.c_long(x.size))
    return out


def check(functors: ctypes.CDLL, name: str, x: np.ndarray, right: list[float], ulps: float) -> None:
    got = compute(functors, name, x).astype(np.float64)
    wanted = np.array(right)
    step = np.spacing(wanted.astype(np.float32)).astype(np.float64)
    worst = np.max(np.abs(got - wanted) / step)
    assert worst <= ulps, f"{name}: {worst} ulp"


def test_the_normal_cdf_is_accurate_for_all_inputs(functors: ctypes.CDLL) -> None:
    x = np.linspace(-13, 9, 20_001, dtype=np.float32)
    right = [0.5 * math.erfc(-float(value) / math.sqrt(2)) for value in x]
    near = np.abs(x) <= 3
    check(functors, "NormalCdf", x[near], list(np.array(right)[near]), 20)
    check(functors, "NormalCdf", x, right, 6 + 1.5 * 13**2)


def test_sigmoid_is_accurate_for_large_negative_inputs(functors: ctypes.CDLL) -> None:
    x = np.linspace(-87, 90, 20_001, dtype=np.float32)
    right = [1 / (1 + math.exp(-float(value))) for value in x]
    check(functors, "Sigmoid", x, right, 3)


def test_softplus_is_accurate_for_large_negative_inputs(functors: ctypes.CDLL) -> None:
    x = np.linspace(-87, 90, 20_001, dtype=np.float32)
    right = [math.log1p(math.exp(-abs(float(value)))) + max(float(value), 0.0) for value in x]
    check(functors, "Softplus", x, right, 4)


@pytest.mark.parametrize("name", ["NormalCdf", "Sigmoid"])
def test_infinities_return_the_limits_and_nan_returns_nan(functors: ctypes.CDLL, name: str) -> None:
    x = np.array([-np.inf, -3e38, 3e38, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(compute(functors, name, x), [0, 0, 1, 1, np.nan])
