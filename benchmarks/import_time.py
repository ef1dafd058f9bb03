"""What `import opwright` costs beyond what NumPy and pluggy cost by themselves."""

from __future__ import annotations

import statistics
import subprocess
import sys

REPEATS = 15
GOAL_MS = 20.0

TIMED = """
import time
t0 = time.perf_counter(); import numpy, pluggy
t1 = time.perf_counter(); import opwright
t2 = time.perf_counter(); {use}
t3 = time.perf_counter(); print(t1 - t0, t2 - t1, t3 - t2)
"""
USE = "opwright.ops.add(numpy.ones(3), numpy.ones(3))"


def measure() -> tuple[float, float, float]:
    """Return medians in ms: NumPy and pluggy, opwright, the first operator on arrays."""
    runs = []
    for _ in range(REPEATS):
        command = [sys.executable, "-c", TIMED.format(use=USE)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        runs.append([float(part) * 1e3 for part in printed.split()])
    peers, ours, first = (statistics.median(column) for column in zip(*runs, strict=True))
    return peers, ours, first


def main() -> None:
    """Print the table."""
    peers, ours, first = measure()
    print(f"import numpy, pluggy          {peers:7.1f} ms")
    print(f"import opwright beyond        {ours:7.1f} ms   (goal {GOAL_MS:.0f})")
    print(f"first operator, index warm    {first:7.1f} ms")


if __name__ == "__main__":
    main()
