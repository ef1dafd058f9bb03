"""A product of two 1024×1024 float32 matrices, compared with a direct call to oneDNN."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from native import compile_library, find_packaged
from workload import Goal, Timed, Workload

N = 1024
OPERATIONS = 2.0 * N**3


def make_matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a, b and an array for their product, float32 [1024, 1024]."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((N, N), dtype="float32") for _ in range(2))
    return a, b, np.zeros((N, N), "float32")


def timed(call: Any, product: Any) -> Timed:
    """Return a call with a few values of the product."""
    call()
    return Timed(call, per=OPERATIONS, values=np.asarray(product()).ravel()[::65537].tolist())


def opwright() -> Timed:
    """Prepare a compiled network with one matmul; the product stays in the scope."""
    import opwright as ow

    a, b, c = make_matrices()
    scope = ow.Scope()
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        for name, value in (("a", a), ("b", b), ("c", c)):
            block.create_var(name, shape=value.shape, persistable=name == "c")
        block.append_op("matmul", {"x": "a", "y": "b"}, {"out": "c"})
    scope.var("c").set(c)
    call = ow.Network(block).compile(feed=["a", "b"], fetch=[], scope=scope)
    return timed(lambda: call(a=a, b=b), lambda: scope.find_var("c").numpy())


def onednn() -> Timed:
    """Prepare one oneDNN matmul primitive on row-major matrices, with oneDNN's two threads."""
    headers = find_packaged("onednn-devel-cpu-gomp", "dnnl.hpp")
    libraries = find_packaged("onednn-cpu-gomp", "libdnnl.so.3")
    library = compile_library(
        "gemm_onednn",
        f"-I{headers}",
        f"-L{libraries}",
        "-l:libdnnl.so.3",
        f"-Wl,-rpath,{libraries}",
    )
    a, b, c = make_matrices()
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (a, b, c)]
    if library.prepare(ctypes.c_int64(N), *pointers):
        raise RuntimeError("oneDNN refused the product")

    # The primitive points to the arrays, so the pointers keep them alive.
    def call(pointers: list[ctypes.c_void_p] = pointers) -> None:
        library.run()

    return timed(call, lambda: c)


def numpy() -> Timed:
    """Prepare numpy.matmul, which uses OpenBLAS."""
    a, b, c = make_matrices()
    return timed(lambda: np.matmul(a, b, out=c), lambda: c)


def torch() -> Timed:
    """Prepare torch.mm, which uses MKL."""
    import torch

    a, b, c = map(torch.from_numpy, make_matrices())
    return timed(lambda: torch.mm(a, b, out=c), lambda: c)


WORKLOADS = [
    Workload(
        "gemm-1024",
        "matrix product 1024×1024×1024, float32",
        "GFLOP/s",
        {"opwright": opwright, "onednn": onednn, "numpy": numpy, "torch": torch},
        {"opwright": [Goal(ratio=0.95, of="onednn")]},
    ),
]
