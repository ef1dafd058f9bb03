"""Shows the kernels that a GPU runs in the calls of a workload, using PyTorch's profiler.

``gpu_kernels.py mlp-train-64 opwright`` profiles one implementation of a workload of
``benchmarks/cuda``, even if its calls replay a graph. It prints a line for each kernel, in order of
decreasing time, and the time between kernels.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

from gpu import alone
from workload import Timed, load_workloads

FOLDER = Path(__file__).parent / "cuda"
N_CALLS = 10


def prepare(workload: str, implementation: str) -> Timed:
    """Prepare the implementation in this process and return it."""
    for file in sorted(FOLDER.glob("*.py")):
        for found in load_workloads(file):
            if found.name == workload:
                return found.implementations[implementation]()
    raise SystemExit(f"gpu_kernels.py: no workload is called {workload!r}")


def record(timed: Timed) -> list[Any]:
    """Return the GPU kernels of several calls, ordered by start time."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    assert timed.call is not None
    wait = timed.wait or (lambda: None)
    for _ in range(N_CALLS):
        timed.call()
    wait()
    with alone(), profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(N_CALLS):
            timed.call()
        wait()
    events = [event for event in profiler.events() if event.device_type == DeviceType.CUDA]
    return sorted(events, key=lambda event: event.time_range.start)


def show(events: list[Any], n_lines: int) -> None:
    """Print the kernels of a call, and the idle time."""
    spent: dict[str, list[float]] = defaultdict(list)
    for event in events:
        spent[event.name].append(event.time_range.end - event.time_range.start)
    busy = sum(map(sum, spent.values())) / N_CALLS
    whole = (max(e.time_range.end for e in events) - events[0].time_range.start) / N_CALLS
    print(f"{whole:.1f} µs a call, {busy:.1f} µs of kernels, {len(events) / N_CALLS:.1f} of them")
    for name, times in sorted(spent.items(), key=lambda item: -sum(item[1]))[:n_lines]:
        share = sum(times) / N_CALLS
        print(f"{share:9.1f} µs {len(times) / N_CALLS:6.1f} ×  {name[:110]}")


def main() -> None:
    """Profile the implementations named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload")
    parser.add_argument("implementations", nargs="+")
    parser.add_argument("--lines", type=int, default=30)
    args = parser.parse_args()
    for implementation in args.implementations:
        print(f"== {args.workload}: {implementation}", flush=True)
        show(record(prepare(args.workload, implementation)), args.lines)


if __name__ == "__main__":
    main()
