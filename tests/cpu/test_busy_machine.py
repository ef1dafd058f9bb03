"""Other busy processes do not change training results."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

STEPS = 40


@pytest.fixture(autouse=True)
def two_threads() -> None:
    ow.set_num_threads(2)


@contextmanager
def busy_processes() -> Iterator[None]:
    """Keep every core busy with processes that exit if this process exits."""
    loop = "import os\nprint(flush=True)\nwhile os.getppid() == PARENT: pass"
    command = [sys.executable, "-S", "-c", loop.replace("PARENT", str(os.getpid()))]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in os.sched_getaffinity(0)]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def train() -> list[np.ndarray]:
    """Return the losses and the parameters after some steps of convolutions and products."""
    with ow.program_guard(ow.Program(seed=5), ow.Program(seed=5)) as (main, startup):
        x = layers.data("x", shape=[None, 3, 16, 16])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        h = layers.conv2d(x, filters=32, kernel=3, activation="relu")
        h = layers.batch_norm(layers.conv2d(h, filters=80, kernel=3))
        h = layers.fc(layers.flatten(layers.max_pool2d(h, kernel=2)), size=300, activation="tanh")
        logits = layers.fc(layers.dropout(h, 0.2), size=10)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
        nn.optimizer.Adam(1e-3).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = ow.Network(main.global_block()).compile(["x", "label"], [loss], scope=scope)
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((8, 3, 16, 16)).astype("f"), rng.integers(0, 10, (8, 1))
    losses = [step(x=images, label=labels)[0] for _ in range(STEPS)]
    kept = [scope.var(parameter.name).numpy() for parameter in main.parameters()]
    return [*losses, *kept]


def test_training_while_other_processes_are_busy_is_bitwise_identical() -> None:
    calm = train()
    with busy_processes():
        busy = train()
    for alone, beside in zip(calm, busy, strict=True):
        np.testing.assert_array_equal(alone, beside)
