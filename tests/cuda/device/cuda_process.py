"""Functions for the scripts in test_driver.py, for example to run one operator."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import opwright as ow


def emulated() -> Any:
    """Load the emulated driver and return it."""
    from opwright_cuda_emulator import start

    return start()


def run(op: str, device: str = "cuda", **feeds: Any) -> Any:
    """Return the result of a single operator."""
    block = ow.Program().global_block()
    for name, array in feeds.items():
        block.create_var(name, array.shape, array.dtype.name)
    (out,) = block.append_op(op, {name: name for name in feeds}, {}).output("out")
    return ow.Network(block).compile(feed=list(feeds), fetch=[out], device=device)(**feeds)[0]


def problem(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the error that a call raises."""
    try:
        function(*args, **kwargs)
    except ow.errors.OpwrightError as error:
        print(f"{type(error).__name__}: {error}")
    else:
        sys.exit("no error")


MISALIGNED = """
#include "kernel.h"
__global__ void misaligned() {
  OW_SHARED(float, row, 8);
  *reinterpret_cast<opwright_cuda::Vector<float, 4>*>(row) = {};
}
"""


def launch_misaligned() -> int:
    """Return the error of the emulated driver for a misaligned store."""
    from opwright_cuda.compile.toolchain import current_toolchain
    from opwright_cuda.source import Source, shared_headers

    source = Source("misaligned.cu", MISALIGNED, shared_headers())
    (kernel,) = current_toolchain().find(source, ["misaligned"], "sm_90")
    driver = ctypes.CDLL(os.environ["OPWRIGHT_CUDA_DRIVER"])
    shape = (1, 1, 1, 1, 1, 1, 0)
    assert driver.cuLaunchKernel(ctypes.c_void_p(kernel.handle), *shape, None, None, None) == 0
    return int(driver.cuCtxSynchronize())


ONES = np.ones(4, np.float32)


def works(device: str = "cuda") -> None:
    """Check that an operator runs on the GPU."""
    np.testing.assert_allclose(run("sigmoid", device, x=ONES), 1 / (1 + np.exp(-1.0)), rtol=1e-6)
    print("works")
