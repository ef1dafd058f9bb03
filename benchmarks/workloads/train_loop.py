"""The cost of a step in nn.train and in a manual loop, compared with the compiled step alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from workload import Goal, Timed, Workload

BATCH = 4
N_STEPS = 20_000
PART = 500
"""The number of steps between two readings of the clock."""


def make_model() -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    """Return an MLP and its data; it is small, so the loop around the step dominates."""
    import opwright_nn as nn

    rng = np.random.default_rng(0)
    images = rng.normal(size=(BATCH * N_STEPS, 8)).astype(np.float32)
    labels = rng.integers(0, 4, (BATCH * N_STEPS, 1))
    model = nn.Model()
    hidden = model.fc_layer("img", size=8, activation="relu")
    loss = model.softmax_with_cross_entropy(model.fc_layer(hidden, size=4), "label")
    model.backward(model.mean(loss))
    model.sgd(0.01)
    model.initialize_parameters(seed=1, img=images[:BATCH])
    return model, (images, labels)


def by_hand(look: Callable[[], None]) -> list[float]:
    """Run the loop from the guide (fill, fill, run); call `look` between groups of steps."""
    import opwright_nn as nn

    model, data = make_model()
    losses = []
    for number, (images, labels) in enumerate(nn.batches(data, size=BATCH), 1):
        model.fill("img", images)
        model.fill("label", labels)
        losses.append(model.run()[0])
        if number % PART == 0:
            look()
    return [sum(map(float, losses)) / len(losses)]


def by_train(look: Callable[[], None]) -> list[float]:
    """Run nn.train without options except a callback that calls `look` between groups of steps."""
    import opwright_nn as nn

    class Clock(nn.Callback):
        every_steps = PART

        def after_steps(self, training: Any) -> None:
            look()

    model, data = make_model()
    history = nn.train(model, data, 1, batch_size=BATCH, callbacks=[Clock()], progress=False)
    return history["loss"]


def measure(loop: Callable[[Callable[[], None]], list[float]]) -> Timed:
    """Return the step times of a loop in ns, as means over groups of steps."""

    def times() -> list[float]:
        looks: list[int] = []
        loop(lambda: looks.append(time.perf_counter_ns()))
        return [(end - begin) / PART for begin, end in pairwise(looks)]

    return Timed(measure=times, values=loop(lambda: None))


def added() -> Timed:
    """Measure the overhead of nn.train per step, as the difference of the medians."""

    def difference() -> list[float]:
        own, trained = (measure(loop).measure for loop in (by_hand, by_train))
        assert own is not None
        assert trained is not None
        pairs = [(float(np.median(own())), float(np.median(trained()))) for _ in range(5)]
        return [max(theirs - mine, 0.0) for mine, theirs in pairs]

    return Timed(measure=difference, values=by_train(lambda: None))


WORKLOADS = [
    Workload(
        "train-loop",
        "a step of a small MLP with batches and losses, batch 4",
        "µs",
        {
            "opwright, fill and run": lambda: measure(by_hand),
            "opwright nn.train": lambda: measure(by_train),
            "opwright nn.train, added": added,
        },
        {"opwright nn.train, added": [Goal(figure=3)]},
    )
]
