"""The cost of alternating a PyTorch matrix product and an opwright plan in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from networks import mlp
from peers import find_peers
from workload import Goal, Timed, Workload

SIZE, CALLS, WARM_UP = 512, 200, 50
Call = Callable[[], Any]


def median_times(calls: list[Call]) -> list[float]:
    """Return the median duration of each of several alternating calls, in seconds."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(WARM_UP + CALLS):
        for call, its_times in zip(calls, times, strict=True):
            began = time.perf_counter()
            call()
            if turn >= WARM_UP:
                its_times.append(time.perf_counter() - began)
    return [statistics.median(its_times) for its_times in times]


def measure(calls: list[Call], which: int) -> list[float]:
    """Return the time of one of two alternating calls, relative to its time when run alone."""
    alone = median_times([calls[which]])[0]
    return [median_times(calls)[which] / alone]


def implementation(which: int) -> Timed:
    """Return the timing of one of the two alternating calls."""
    find_peers()
    import torch

    model, _ = mlp.make_opwright_model(SIZE)
    images, labels = mlp.make_batch(SIZE)
    model.fill("img", images)
    model.fill("label", labels)
    a = torch.from_numpy(np.random.default_rng(1).random((SIZE, SIZE), dtype="float32"))
    return Timed(measure=partial(measure, [model.run, lambda: torch.mm(a, a)], which))


WORKLOADS = [
    Workload(
        "in-turn-torch",
        "a training step of an MLP and torch.mm of 512×512 in turn, each in its calm steps",
        "calm steps",
        {"opwright": partial(implementation, 0), "opwright, torch.mm": partial(implementation, 1)},
        {"opwright": [Goal(figure=1.3)], "opwright, torch.mm": [Goal(figure=1.3)]},
    )
]
