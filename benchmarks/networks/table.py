"""A table of vectors with few lookups per step, the same for all implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np

SIZE = 64
LOOKUPS = 4096
BATCHES = 64
"""The number of batches used in turn, which read more rows of a large table than fit in caches."""
LEARNING_RATE = 0.1
START = 0.5
"""The initial value of every table element."""

Step = Callable[[], float]


def make_batches(rows: int) -> Iterator[np.ndarray]:
    """Yield batches of row indices indefinitely, int64 [LOOKUPS], distinct within a batch."""
    rng = np.random.default_rng(9)
    return cycle([rng.choice(rows, LOOKUPS, replace=False) for _ in range(BATCHES)])


def make_label() -> np.ndarray:
    """Return the targets of the vectors, float32 [LOOKUPS, SIZE]."""
    return np.random.default_rng(10).random((LOOKUPS, SIZE), dtype="float32")


def make_opwright_step(rows: int, optimizer: str) -> Step:
    """Return a step that minimizes the sum of squared errors, and returns this loss."""
    import opwright as ow
    import opwright_nn as nn

    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        index = nn.layers.data("index", [LOOKUPS], "int64")
        label = nn.layers.data("label", [LOOKUPS, SIZE])
        start = nn.ParamAttr(initializer=nn.initializer.Constant(START))
        vectors = nn.layers.embedding(index, (rows, SIZE), sparse=True, param_attr=start)
        loss = ow.ops.sum(ow.ops.mse(vectors, label))
        nn.optimizer.make_optimizer(optimizer, {"learning_rate": LEARNING_RATE}).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    call = network.compile(feed=["index", "label"], fetch=[loss], scope=scope)
    batches, target = make_batches(rows), make_label()
    return lambda: float(call(index=next(batches), label=target)[0])


def make_torch_step(rows: int, optimizer: str) -> Step:
    """Return the same step with a sparse gradient in PyTorch."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    table = torch.full((rows, SIZE), START).requires_grad_()
    kinds: dict[str, Any] = {"sgd": torch.optim.SGD, "adam": torch.optim.SparseAdam}
    stepper = kinds[optimizer]([table], lr=LEARNING_RATE)
    batches, target = make_batches(rows), torch.from_numpy(make_label())

    def step() -> float:
        stepper.zero_grad()
        index = torch.from_numpy(next(batches))
        vectors = F.embedding(index, table, sparse=True)
        loss = F.mse_loss(vectors, target, reduction="sum")
        loss.backward()
        stepper.step()
        return loss.item()

    return step
