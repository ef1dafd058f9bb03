"""Times training steps while one busy process runs per core, relative to undisturbed steps.

Each implementation times undisturbed and disturbed steps alternately in one process, and returns
the ratio of their means. Every implementation starts its own busy processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from networks import lenet, mlp
from workload import Goal, Timed, Workload

CALM_S, BUSY_S = 1.0, 3.0
Step = Callable[[], Any]


@contextmanager
def busy_processes() -> Iterator[None]:
    """Keep every core busy with a counting process."""
    loop = [sys.executable, "-S", "-c", "print(flush=True)\nwhile True: pass"]
    processes = [subprocess.Popen(loop, stdout=subprocess.PIPE) for _ in os.sched_getaffinity(0)]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def time_steps(step: Step, seconds: float) -> list[float]:
    """Run steps for `seconds`; return the duration of each in seconds."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        step()
        times.append(time.perf_counter() - began)
    return times


def measure(step: Step, figure: Callable[[list[float]], float]) -> list[float]:
    """Return a statistic of the disturbed steps, divided by the mean undisturbed step."""
    time_steps(step, CALM_S / 4)
    calm = time_steps(step, CALM_S)
    with busy_processes():
        busy = time_steps(step, BUSY_S)
    return [figure(busy) / (sum(calm) / len(calm))]


def mean(times: list[float]) -> float:
    """Return the mean of `times`."""
    return sum(times) / len(times)


def opwright_mlp() -> Step:
    """Prepare 784-200-200-10, batch 64, SGD, as a Model."""
    model, _ = mlp.make_opwright_model(64)
    images, labels = mlp.make_batch(64)
    model.fill("img", images)
    model.fill("label", labels)
    return model.run


def opwright_lenet() -> Step:
    """Prepare LeNet, batch 64, Adam, as a compiled step."""
    import opwright as ow

    block, scope, loss = lenet.make_opwright_step()
    images, labels = lenet.make_batch()
    call = ow.Network(block).compile(feed=["x", "y"], fetch=[loss], scope=scope)
    return lambda: call(x=images, y=labels)


def torch_step(loss_of: Callable[[list[Any]], Any], arrays: list[Any], fused: Any) -> Step:
    """Return a training step for a loss with PyTorch's autograd and an optimizer."""
    import torch

    parameters = [torch.from_numpy(array).requires_grad_() for array in arrays]
    optimizer = fused(parameters)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(parameters)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def torch_mlp() -> Step:
    """Prepare the same step as opwright_mlp in PyTorch."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    images, labels = mlp.make_batch(64)
    x, y = torch.from_numpy(images), torch.from_numpy(labels[:, 0])

    def loss_of(parameters: list[Any]) -> Any:
        w1, b1, w2, b2, w3, b3 = parameters
        h = torch.sigmoid(x @ w1 + b1)
        return F.cross_entropy(torch.sigmoid(h @ w2 + b2) @ w3 + b3, y)

    sgd = partial(torch.optim.SGD, lr=mlp.LEARNING_RATE, fused=True)
    return torch_step(loss_of, mlp.make_parameters(), sgd)


def torch_lenet() -> Step:
    """Prepare the same step as opwright_lenet in PyTorch."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    images, labels = lenet.make_batch()
    x, y = torch.from_numpy(images), torch.from_numpy(labels[:, 0])

    def loss_of(parameters: list[Any]) -> Any:
        c1, d1, c2, d2, w1, b1, w2, b2 = parameters
        h = F.max_pool2d(F.conv2d(x, c1, d1), 2)
        h = F.max_pool2d(F.conv2d(h, c2, d2), 2)
        return F.cross_entropy(F.linear(F.relu(F.linear(h.flatten(1), w1, b1)), w2, b2), y)

    adam = partial(torch.optim.Adam, lr=lenet.LEARNING_RATE, fused=True)
    return torch_step(loss_of, lenet.make_parameters(), adam)


def implementation(make: Callable[[], Step], figure: Callable[[list[float]], float]) -> Timed:
    """Return an implementation that `measure` times."""
    return Timed(measure=partial(measure, make(), figure))


def make_workload(name: str, title: str, makers: dict[str, Callable[[], Step]]) -> list[Workload]:
    """Return the rows of one network, for its mean and longest step."""
    rows = {"mean": ("mean step", mean, Goal(figure=2.5)), "longest": ("longest step", max, None)}
    return [
        Workload(
            f"busy-{name}-{row}",
            f"{what} of {title} beside as many busy processes as cores",
            "calm steps",
            {peer: partial(implementation, make, figure) for peer, make in makers.items()},
            {"opwright": [goal]} if goal else {},
        )
        for row, (what, figure, goal) in rows.items()
    ]


WORKLOADS = [
    *make_workload("mlp", "an MLP, batch 64", {"opwright": opwright_mlp, "torch": torch_mlp}),
    *make_workload("lenet", "LeNet, batch 64", {"opwright": opwright_lenet, "torch": torch_lenet}),
]
