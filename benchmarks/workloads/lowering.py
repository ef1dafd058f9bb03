"""The time to lower a network (shapes, selection, memory, steps), excluding `prepare`."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from workload import Goal, Timed, Workload

GOALS_MS = {1_000: 20, 20_000: 400}


def opwright(length: int) -> Timed:
    """Prepare a chain of alternating additions and sigmoids on 8 floats, relowered each time."""
    import opwright as ow

    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        x = h = block.create_var("x", shape=[8])
        for index in range(length):
            h = ow.ops.sigmoid(h) if index % 2 else ow.ops.add(h, x)
    feed = np.ones(8, np.float32)

    def lower_once() -> float:
        network = ow.Network(block)
        call = network.compile(feed=["x"], fetch=[h], scope=ow.Scope())
        began = time.perf_counter()
        call(x=feed)
        first_s = time.perf_counter() - began
        runs_s = []
        for _ in range(3):  # an interrupted call would make lowering appear short
            began = time.perf_counter()
            call(x=feed)
            runs_s.append(time.perf_counter() - began)
        return (first_s - min(runs_s) - network.placement().prepare_s) * 1e9

    lower_once()
    return Timed(measure=lambda: [lower_once()])


WORKLOADS = [
    Workload(
        f"lowering-{length}",
        f"lowering {length:,} operators, `prepare` apart",
        "ms",
        {"opwright": partial(opwright, length)},
        {"opwright": [Goal(figure=goal)]},
    )
    for length, goal in GOALS_MS.items()
]
