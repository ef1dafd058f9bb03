"""Data-parallel training with one process has the same results and plan as plain training."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_dist as dist
from opwright_nn import layers, optimizer

X = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def train(parallel: bool, **options: object) -> tuple[list[float], list[str]]:
    main, startup = ow.Program(seed=1), ow.Program(seed=1)
    with ow.program_guard(main, startup):
        x, y = layers.data("x", [None, 8]), layers.data("y", [None, 1])
        error = layers.fc(layers.fc(x, 16, activation="tanh"), 1) - y
        loss = layers.mean(error * error)
        pairs = ow.append_backward([loss])
        if parallel:
            pairs = dist.data_parallel(pairs, **options)  # type: ignore[arg-type]
        optimizer.Adam(0.01).apply_gradients(pairs)
        if parallel:
            dist.share_startup(startup)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    dist.broadcast_state(main, scope)
    step = ow.Network(main.global_block()).compile(feed=[x, y], fetch=[loss], scope=scope)
    losses = [float(step(x=X, y=Y)[0]) for _ in range(5)]
    return losses, [op.type for op in main.global_block().ops]


def test_data_parallel_training_with_one_process_is_bitwise_identical() -> None:
    alone, _ = train(parallel=False)
    together, types = train(parallel=True)
    assert together == alone
    assert types.count("dist.all_reduce") == 4


def test_gradients_of_the_last_layers_are_averaged_first() -> None:
    main, startup = ow.Program(), ow.Program()
    with ow.program_guard(main, startup):
        x = layers.data("x", [None, 8])
        loss = layers.mean(layers.fc(layers.fc(x, 4), 2))
        pairs = ow.append_backward([loss])
        averaged = dist.data_parallel(pairs)
    assert [parameter for parameter, _ in averaged] == [parameter for parameter, _ in pairs]
    reduced = [op.input("x")[0] for op in main.global_block().ops if op.type == "dist.all_reduce"]
    assert reduced == [gradient.name for _, gradient in reversed(pairs)]
    rows = {op.input("rows")[0] for op in main.global_block().ops if op.type == "dist.all_reduce"}
    assert rows == {"x"}


def test_sharing_a_startup_program_twice_broadcasts_each_value_once() -> None:
    main, startup = ow.Program(), ow.Program()
    with ow.program_guard(main, startup):
        layers.fc(layers.data("x", [None, 8]), 4)
        dist.share_startup(startup)
        dist.share_startup(startup)
    shared = [op.output("out")[0] for op in startup.global_block().ops if "broadcast" in op.type]
    assert len(shared) == len(set(shared)) == 2


def test_an_invalid_value_for_unequal_rows_is_refused() -> None:
    with pytest.raises(dist.DistError, match=r"unequal_rows must be one of .*, got 'ignore'"):
        train(parallel=True, unequal_rows="ignore")


def test_an_unknown_group_is_refused_before_anything_is_appended() -> None:
    with pytest.raises(dist.DistError, match="unknown group, got 'team'"):
        train(parallel=True, group="team")
