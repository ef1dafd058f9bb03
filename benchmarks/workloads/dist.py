"""Reductions in a plan and data-parallel training steps, in processes with one thread each."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ranks import GLOO, OURS, Ranks
from workload import Goal, NotAvailableError, Timed, Workload

ROUND_S, ROUNDS = 0.4, 5
PAIRS, CALLS = 200, 20
BY_MPI = {"OPWRIGHT_MPI_SHARED_MEMORY": "0"}


def start(engine: str, step: str, n: int, environment: dict[str, str] | None = None) -> Ranks:
    """Return processes that have prepared a step."""
    if engine == OURS and importlib.util.find_spec("opwright_mpi") is None:
        raise NotAvailableError("opwright-mpi is not installed: make venv")
    return Ranks(engine, step, n, environment)


def timed(engine: str, step: str, n: int = 2, environment: dict[str, str] | None = None) -> Timed:
    """Return a step of `n` processes."""
    ranks = start(engine, step, n, environment)
    return Timed(measure=partial(ranks.time_round, ROUND_S), values=ranks.values)


def compared(
    engine: str,
    first: tuple[str, int],
    second: tuple[str, int],
    figure: Callable[[float, float], float],
) -> Timed:
    """Compare the medians of two alternating steps with given numbers of processes."""
    one, two = start(engine, *first), start(engine, *second)

    def measure() -> list[float]:
        figures = []
        for _ in range(ROUNDS):
            medians = [statistics.median(ranks.time_round(ROUND_S)) for ranks in (one, two)]
            figures.append(figure(*medians))
        return figures

    return Timed(measure=measure)


def added_alone() -> Timed:
    """Return the time that data_parallel adds to a step in a single process."""
    from networks.distributed import STEPS

    steps = [STEPS[OURS][name]()[0] for name in ("mlp-1-alone", "mlp-1")]

    def measure() -> list[float]:
        differences = []
        for _ in range(PAIRS):  # alternately, so slow minutes of the machine do not count
            times = []
            for step in steps:
                began = time.perf_counter_ns()
                for _ in range(CALLS):
                    step()
                times.append((time.perf_counter_ns() - began) / CALLS)
            differences.append(times[1] - times[0])
        return differences

    return Timed(measure=measure)


def added(first: float, second: float) -> float:
    """Return the difference between the second and the first step."""
    return second - first


def share(first: float, second: float) -> float:
    """Return the time of the second step divided by the time of the first step."""
    return second / first


def make_reduction(name: str, title: str, ratio: float) -> Workload:
    """Return the row of one size."""
    step = f"allreduce-{name}"
    return Workload(
        f"dist-allreduce-{name}",
        f"all_reduce of {title} over two processes, inside a plan",
        "µs",
        {
            "opwright": partial(timed, OURS, step),
            "opwright, by MPI": partial(timed, OURS, step, environment=BY_MPI),
            "torch gloo": partial(timed, GLOO, step),
        },
        {"opwright": [Goal(ratio=ratio)]},
    )


def make_training(name: str, title: str, ratio: float) -> Workload:
    """Return the row of one network."""
    return Workload(
        f"dist-{name}-train",
        f"training step of {title}, two processes, batch 64 each",
        "µs",
        {
            "opwright": partial(timed, OURS, name),
            "opwright, by MPI": partial(timed, OURS, name, environment=BY_MPI),
            "torch DDP": partial(timed, GLOO, name),
            "torch DDP, views": partial(timed, GLOO, f"{name}-views"),
        },
        {"opwright": [Goal(ratio=ratio)]},
        tolerance=1e-3,
    )


def make_comparison(
    name: str, title: str, unit: str, steps: dict[str, Any], figure: Any, goal: Goal
) -> Workload:
    """Return a row that compares two steps of each engine."""
    implementations = {
        engine: partial(compared, engine, first, second, figure)
        for engine, (first, second) in steps.items()
    }
    return Workload(f"dist-{name}", title, unit, implementations, {OURS: [goal]})


WORKLOADS = [
    make_reduction("1kb", "1 KB", 0.1),
    make_reduction("1mb", "1 MB", 0.6),
    make_reduction("100mb", "100 MB", 0.7),
    make_training("mlp", "784-200-200-10 sigmoid, SGD", 0.4),
    make_training("lenet", "LeNet, Adam", 0.6),
    make_comparison(
        "mlp-second",
        "what a second process adds to a training step of 784-200-200-10, batch 64 each",
        "µs",
        {
            OURS: (("mlp-alone", 1), ("mlp", 2)),
            GLOO: (("mlp-alone", 1), ("mlp-views", 2)),
        },
        added,
        Goal(ratio=0.4),
    ),
    Workload(
        "dist-mlp-alone",
        "what a group of one adds to a training step of 784-200-200-10, batch 1",
        "µs",
        {OURS: added_alone},
        {OURS: [Goal(figure=1.0)]},
    ),
    make_comparison(
        "mlp-crowded",
        "training step of 784-200-200-10 of four processes, in steps of two",
        "steps of two",
        {OURS: (("mlp", 2), ("mlp", 4)), GLOO: (("mlp-views", 2), ("mlp-views", 4))},
        share,
        Goal(figure=3.0),
    ),
    *(
        make_comparison(
            f"divided-{n}",
            f"training step of 784-2048-2048-10 of {n} processes, Adam's states in parts (ZeRO-1), "
            "in steps of whole ones",
            "steps of whole states",
            {OURS: (("wide", n), ("wide-divided", n))},
            share,
            Goal(figure=1.25),
        )
        for n in (2, 4)
    ),
]
