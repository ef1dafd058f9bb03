"""Whether all cases run, or the sample of them for `make test`, which is the same each time.

Only `make test-all` runs:

- each case of an operator in each dtype on each library; `make test` runs each once on the CPU,
  a third of them on CUDA, each kernel once, and a twelfth of the rest
- all cases in 16-bit floats, and with outputs that share inputs' memory; `make test`: a twelfth
- both releases of NVRTC on three architectures each; `make test`: one each
- the rules of the conformance kit that run a kernel hundreds of times, on the example's for CUDA
- every case of tests that are marked as grids; `make test`: the first, and a share of the rest -
  more kills, and more allocations that fail
- tests that are marked as long, with a reason
"""

from __future__ import annotations

import os
from typing import Final
from zlib import crc32

EVERY: Final = os.environ.get("OPWRIGHT_EVERY_CASE") == "1"
"""Whether every case runs in every dtype on every library; `make test-all` sets it."""


def is_one_in(share: int, name: object) -> bool:
    """Return whether a name is in a fixed sample of one in `share` names."""
    return crc32(f"{name}".encode()) % share == 0
