"""Decides whether all cases run, or only the deterministic sample for `make test`.

Only `make test-all` runs:

- each case of an operator in each dtype on each library; `make test` runs each case once on the
  CPU, a third of the cases on CUDA, each kernel once, and a twelfth of the rest
- all cases in 16-bit floats, and with outputs that share the memory of inputs; `make test` runs a
  twelfth of them
- both releases of NVRTC on three architectures each; `make test` runs one of each
- the conformance rules that run a kernel hundreds of times, on the CUDA kernels of the example
- every case of tests that are marked as grids; `make test` runs the first case, and a share of
  the rest
- additional process kills and allocation failures
- tests that are marked as long, with a reason
"""

from __future__ import annotations

import os
from typing import Final
from zlib import crc32

EVERY: Final = os.environ.get("OPWRIGHT_EVERY_CASE") == "1"
"""Whether every case runs in every dtype on every library; `make test-all` sets it."""


def is_one_in(share: int, name: object) -> bool:
    """Return whether a name belongs to a fixed sample that contains 1 / `share` of all names."""
    return crc32(f"{name}".encode()) % share == 0
