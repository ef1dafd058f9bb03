"""One pool of threads for PyTorch and for plans."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch

from opwright.runtime import use_openmp

_TORCH: Final = str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")


def share_threads() -> bool:
    """Run jobs of plans that this thread calls on the OpenMP threads of PyTorch, if it has any.

    After each of PyTorch's parallel regions, as in a fused optimizer, its threads spin for the
    next one. A plan whose threads had to wake beside them would wait for a processor.
    """
    return use_openmp(_TORCH)
