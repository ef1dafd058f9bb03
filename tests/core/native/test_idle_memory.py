"""Eager calls keep bounded memory between calls; the tests measure it in separate processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import numpy as np
import opwright as ow

def used_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def call(n):
    CALL

call(10)
before = used_mb()
"""

END = """
grown = used_mb() - before
assert grown < MOST, f"{grown:.0f} MB more than before the calls"
"""

# In addition to the bound of 64 MiB, the host keeps 256 MiB of freed blocks for reuse.
KEPT_MB = 64 + 256 + 60


def run_child(call: str, calls: str) -> None:
    script = BEGIN.replace("CALL", call) + calls + END.replace("MOST", str(KEPT_MB))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "ow.ops.sort(np.ones(n, np.float32))",
        "ow.ops.unique(np.arange(n, dtype=np.int64))",
        "ow.ops.nonzero(np.ones(n, bool))",
    ],
)
def test_memory_kept_for_many_shapes_is_bounded(call: str) -> None:
    run_child(call, "for n in range(1_500_000, 1_500_040): call(n)")


@pytest.mark.parametrize(
    "call",
    [
        "ow.ops.nonzero(np.ones(n, bool))",
        "ow.ops.arange(start=0.0, stop=float(n), step=1.0, dtype='float32')",
    ],
)
def test_the_memory_of_one_large_call_is_freed(call: str) -> None:
    run_child(call, "call(40_000_000)")


def test_a_small_workspace_is_kept_and_a_large_workspace_is_recreated() -> None:
    """The plan is kept in both cases; only the instance with the large workspace is freed."""
    run_child(
        "return ow.ops.sort(np.arange(n, dtype=np.float32)[::-1].copy())",
        """
for n in (10, 10_000_000, 10, 10_000_000):
    out = call(n)
    assert out[0] == 0 and out[-1] == n - 1
del out
""",
    )
