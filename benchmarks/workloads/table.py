"""Training steps that look up 4,096 rows of a table with 10⁷ rows, compared with 10⁴ rows.

A large table should cost as much as a small table, except that its rows are not in caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from networks.table import BATCHES, LOOKUPS, SIZE, Step, make_opwright_step, make_torch_step
from workload import Goal, Timed, Workload

FEW, MANY = 10**4, 10**7
STEPS_TO_COMPARE = BATCHES + 4  # the last batches look up rows that have been updated
ROUND_S, ROUNDS = 0.2, 5
Make = Callable[[int, str], Step]


def timed_step(make: Make, optimizer: str) -> Timed:
    """Return a step on the large table with the losses of its first calls."""
    step = make(MANY, optimizer)
    return Timed(step, values=[step() for _ in range(STEPS_TO_COMPARE)])


def median_of_steps(step: Step, seconds: float) -> float:
    """Return the median duration of a step in seconds."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        step()
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def growth(make: Make, optimizer: str) -> Timed:
    """Return the ratio of steps on the large and on the small table, alternating in one process."""
    few, many = make(FEW, optimizer), make(MANY, optimizer)
    for step in (few, many):
        median_of_steps(step, ROUND_S)

    def measure() -> list[float]:
        ratios = []
        for _ in range(ROUNDS):
            small = median_of_steps(few, ROUND_S)
            ratios.append(median_of_steps(many, ROUND_S) / small)
        return ratios

    return Timed(measure=measure)


def make_workloads(optimizer: str) -> list[Workload]:
    """Return the rows of one optimizer."""
    implementations = {"opwright": make_opwright_step, "torch": make_torch_step}
    title = f"training step of {LOOKUPS} rows of 10⁷×{SIZE}, sparse, {optimizer}"
    return [
        Workload(
            f"table-{optimizer}",
            title,
            "µs",
            {name: partial(timed_step, make, optimizer) for name, make in implementations.items()},
            {"opwright": [Goal(ratio=1.0)]},
        ),
        Workload(
            f"table-{optimizer}-growth",
            f"{title}, in steps of 10⁴×{SIZE}",
            "small steps",
            {name: partial(growth, make, optimizer) for name, make in implementations.items()},
            {"opwright": [Goal(figure=2.0)]},
        ),
    ]


WORKLOADS = [*make_workloads("sgd"), *make_workloads("adam")]
