"""The overhead of a step with a Python kernel."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from workload import Goal, Timed, Workload

LENGTH = 100
REPEATS = 9


def time_ns(call: Callable[[], Any], number: int) -> float:
    """Return the median time of one call."""
    call()
    return statistics.median(timeit.repeat(call, number=number, repeat=REPEATS)) / number * 1e9


def opwright() -> Timed:
    """Measure the NumPy kernel of add on 8 floats, alone and in plans that differ by 100 steps."""
    import opwright as ow

    x, y, out = np.ones(8, np.float32), np.full(8, 2.0, np.float32), np.empty(8, np.float32)
    found = ow.explain("add", device="cpu", dtype="float32").candidates
    kernel = next(one.entry for one in found if one.entry.library == "numpy").load()

    def compile_chain(length: int) -> Callable[..., Any]:
        with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
            first = h = main.global_block().create_var("x", shape=[8])
            for _ in range(length):
                h = ow.ops.add(h, first)
        return ow.Network(main.global_block()).compile(
            feed=["x"], fetch=[h], passes=[], scope=ow.Scope()
        )

    ow.current_context().pin("add", "numpy")
    short, long = compile_chain(1), compile_chain(1 + LENGTH)

    def measure() -> list[float]:
        added_ns = time_ns(lambda: long(x=x), 200) - time_ns(lambda: short(x=x), 5_000)
        kernel_ns = time_ns(lambda: kernel(x, y, out), 5_000) - time_ns(lambda: None, 5_000)
        return [added_ns / LENGTH - kernel_ns]

    return Timed(measure=measure)


WORKLOADS = [
    Workload(
        "python-step",
        "a step with a Python kernel, over the kernel's own time",
        "ns",
        {"opwright": opwright},
        {"opwright": [Goal(figure=300)]},
    ),
]
