"""Provides compiled kernels, and makes the module plan_maker importable."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[2] / "core" / "include"
sys.path.insert(0, str(HERE))  # plan_maker


@pytest.fixture(scope="session")
def kernel_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The compiled kernels of tests/native/kernels.cc."""
    source = HERE.parents[1] / "native" / "kernels.cc"
    library = tmp_path_factory.mktemp("kernels") / "kernels.so"
    subprocess.run(
        ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", f"-I{INCLUDE}", source, "-o", library],
        check=True,
    )
    loaded = ctypes.CDLL(str(library))
    loaded.find_kernel.restype = ctypes.c_void_p
    return loaded


@pytest.fixture(scope="session")
def kernels(kernel_library: ctypes.CDLL) -> dict[str, int]:
    """Addresses of compiled kernels, by name."""
    names = [
        "add",
        "scale",
        "fail",
        "refuse",
        "nonzero",
        "lazy",
        "packed_add",
        "bound_copy",
        "less",
        "wait",
    ]
    return {name: kernel_library.find_kernel(name.encode()) for name in names}
