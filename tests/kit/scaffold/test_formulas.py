"""Generated kernels compute their operator correctly in every language."""

from __future__ import annotations

import ctypes
import subprocess
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright import get_include
from opwright_kit.scaffold import check_names, plan_package
from opwright_kit.scaffold.formulas import FORMULAS

SPECIAL = [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 90.0, -90.0, np.inf, -np.inf, np.nan]

FUNCTION = """
extern "C" void {name}(const T* x_values, const T* y_values, T* out, int64_t n) {{
  for (int64_t i = 0; i < n; ++i) {{
    [[maybe_unused]] const T x = x_values[i], y = y_values[i];
    out[i] = {native};
  }}
}}
"""


def arrays(dtype: str) -> tuple[Any, Any]:
    """Return all pairs of special values, and random pairs."""
    special = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    drawn = np.random.default_rng(0).normal(size=(2, 100), scale=3)
    x, y = (np.concatenate(pair).astype(dtype) for pair in zip(special, drawn, strict=True))
    return x, y


def assert_computes(op_type: str, got: Any, x: Any, y: Any) -> None:
    inputs = (x, y)[: FORMULAS[op_type].n_inputs]
    with ow.current_context().pin(op_type, "numpy"), np.errstate(all="ignore"):
        expected = getattr(ow.ops, op_type)(*inputs)
    np.testing.assert_allclose(got, expected, rtol=16 * np.finfo(x.dtype).eps, atol=1e-36)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op_type", FORMULAS)
def test_the_python_kernel_computes_its_operator(op_type: str, dtype: str) -> None:
    context = ow.current_context()
    names = check_names("opwright-acme", context)
    files = plan_package(names, context, kind="kernel", operator=op_type).files
    found: dict[str, Any] = {}
    exec(files["src/opwright_acme/kernels.py"], found)
    x, y = arrays(dtype)
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        found[f"{op_type}_kernel"](*(x, y)[: FORMULAS[op_type].n_inputs], out)
    assert_computes(op_type, out, x, y)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the expressions for C++ and CUDA C++ kernels, each as a separate function."""
    folder = tmp_path_factory.mktemp("formulas")
    parts = ["#include <cstdint>", '#include "opwright/functors.h"', "using T = float;"]
    parts += [FUNCTION.format(name=f"{op}_", native=f.native) for op, f in FORMULAS.items()]
    (folder / "formulas.cc").write_text("\n".join(parts))
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Werror", f"-I{get_include()}"]
    command = ["c++", *flags, str(folder / "formulas.cc"), "-o", str(folder / "formulas.so")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "formulas.so"))


@pytest.mark.parametrize("op_type", FORMULAS)
def test_the_cpp_and_cuda_expression_computes_its_operator(
    op_type: str, native: ctypes.CDLL
) -> None:
    x, y = arrays("float32")
    out = np.empty_like(x)
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (x, y, out))
    getattr(native, f"{op_type}_")(*pointers, ctypes.c_int64(x.size))
    assert_computes(op_type, out, x, y)
