"""Batches of small images decoded by two worker processes, from the second epoch on.

PyTorch's `DataLoader` uses the same decoder, persistent workers, and the default number of
prefetched batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from networks.small_images import N_IMAGES, decode, write_images
from workload import Goal, NotAvailableError, Timed, Workload

BATCH, WORKERS, EPOCHS = 64, 2, 3
Loader = Iterable[tuple[Any, Any]]


class Images:
    """A data set for PyTorch.

    Parameters
    ----------
    items : list
        The arguments of `decode`.
    """

    def __init__(self, items: list[tuple[str, int]]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: int) -> Any:
        return decode(self._items[number])


def make_opwright() -> Loader:
    """Return an opwright loader."""
    import opwright_nn as nn

    return nn.load_batches(write_images(), BATCH, map=decode, workers=WORKERS, shuffle=False)


def make_torch() -> Loader:
    """Return a PyTorch loader."""
    try:
        import torch
    except ImportError as error:
        raise NotAvailableError(str(error)) from error
    torch.set_num_threads(1)  # the threads of `mean` would compete with the workers
    options: dict[str, Any] = {"persistent_workers": True}
    return torch.utils.data.DataLoader(
        Images(write_images()), BATCH, num_workers=WORKERS, **options
    )


def epoch(loader: Loader) -> tuple[int, int, float]:
    """Return the times in ns until the first and last batch, and the sum of the images' means."""
    total, n_images = 0.0, 0
    began = first = time.perf_counter_ns()
    for images, _ in loader:
        first = first if n_images else time.perf_counter_ns()
        total += float(images.mean())
        n_images += len(images)
    assert n_images == N_IMAGES
    return first - began, time.perf_counter_ns() - began, total


def measure(make: Callable[[], Loader], index: int) -> Timed:
    """Return times of later epochs: until the first batch (index 0), or until the end (1)."""
    loader = make()
    value = epoch(loader)[2]
    return Timed(
        measure=lambda: [float(epoch(loader)[index]) for _ in range(EPOCHS)],
        per=N_IMAGES if index else 1,
        values=[value],
    )


def make_workload(name: str, title: str, unit: str, index: int, goal: Goal) -> Workload:
    """Return one row of the table."""
    makers = {"opwright": make_opwright, "torch": make_torch}
    implementations = {key: partial(measure, make, index) for key, make in makers.items()}
    title = f"{title} of 10,000 PNGs of 32×32, {WORKERS} workers, from the second epoch on"
    return Workload(name, title, unit, implementations, {"opwright": [goal]})


WORKLOADS = [
    make_workload("loader", "an image", "µs", 1, Goal(ratio=1.0)),
    make_workload("loader-first", "the wait for the first batch", "ms", 0, Goal(figure=50)),
]
