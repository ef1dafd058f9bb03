"""Shares one thread pool between PyTorch and plans."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch

from opwright.runtime import use_openmp

_TORCH: Final = str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")


def share_threads() -> bool:
    """Run this thread's plans on PyTorch's OpenMP threads, if they exist.

    After each parallel region, such as a fused optimizer, PyTorch's threads spin while they wait
    for the next region. Separate plan threads would compete with the spinning threads for
    processors.
    """
    return use_openmp(_TORCH)
