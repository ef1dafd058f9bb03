"""A wide MLP with Adam, whose states take twice the memory of its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SIZES = (784, 2048, 2048, 10)
BATCH = 16  # of each process
LEARNING_RATE = 1e-4
STEPS_TO_COMPARE = 3


def make_step(divided: bool) -> tuple[Callable[[], Any], Any]:
    """Return a data-parallel step and its scope; `divided` shards the Adam states (ZeRO-1)."""
    import opwright as ow
    import opwright_dist as dist
    import opwright_nn as nn

    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        x = nn.layers.data("x", [BATCH, SIZES[0]])
        y = nn.layers.data("y", [BATCH, 1], "int64")
        hidden = x
        for size in SIZES[1:-1]:
            hidden = nn.layers.fc(hidden, size, activation="relu")
        scores = nn.layers.fc(hidden, SIZES[-1])
        loss = nn.layers.mean(nn.layers.softmax_with_cross_entropy(scores, y))
        choice = nn.DataParallel(unequal_rows="refuse", shard_optimizer=divided)
        nn.optimizer.Adam(LEARNING_RATE).minimize(loss, data_parallel=choice)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    rng = np.random.default_rng(dist.rank())
    feeds = {
        "x": rng.random((BATCH, SIZES[0]), dtype="float32"),
        "y": rng.integers(0, SIZES[-1], (BATCH, 1)),
    }
    call = ow.Network(main.global_block()).compile(feed=[x, y], fetch=[loss], scope=scope)
    return lambda: float(call(**feeds)[0]), scope
