"""Multi-process steps in opwright and PyTorch: reductions and training steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from networks import lenet, mlp, wide

BATCH = 64  # the batch of each process
ELEMENTS = {"1kb": 256, "1mb": 1 << 18, "100mb": 25 * (1 << 20)}

Step = Callable[[], Any]
Prepared = tuple[Step, list[float]]


def connect(engine: str) -> int:
    """Connect this process to the other processes; return its rank."""
    if engine == "opwright":
        import opwright_dist

        return opwright_dist.rank()
    import torch

    torch.set_num_threads(1)
    rank = int(os.environ["RANKS_RANK"])
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{os.environ['RANKS_FILE']}",
        rank=rank,
        world_size=int(os.environ["RANKS_SIZE"]),
    )
    return rank


def make_elements(rank: int, n: int) -> np.ndarray:
    """Return the array that this process contributes to a reduction."""
    return np.random.default_rng(rank).random(n, dtype="float32")


def opwright_reduction(n: int) -> Prepared:
    """Prepare a plan that reduces one variable into another with one all_reduce."""
    import opwright as ow
    import opwright_dist as dist

    block = ow.Program().global_block()
    block.create_var("x", shape=[n], dtype="float32", persistable=True)
    block.create_var("y", shape=[n], dtype="float32", persistable=True)
    block.append_op("dist.all_reduce", inputs={"x": "x"}, outputs={"out": "y"})
    scope = ow.Scope()
    scope.var("x").set(make_elements(dist.rank(), n))
    scope.var("y").set(np.zeros(n, "float32"))
    step = ow.Network(block).compile(fetch=[], scope=scope)
    step()
    return step, scope.find_var("y").numpy()[:4].tolist()


def torch_reduction(n: int) -> Prepared:
    """Prepare an in-place all_reduce with Gloo."""
    import torch
    from torch import distributed

    x = torch.from_numpy(make_elements(distributed.get_rank(), n))
    distributed.all_reduce(x)
    values = x[:4].tolist()
    x.zero_()  # repeated in-place sums would soon be infinite
    return partial(distributed.all_reduce, x), values


def opwright_training(make: Callable[..., Any], batch: Any, parallel: bool, n: int) -> Prepared:
    """Prepare a compiled step, which averages gradients over all processes if it is parallel."""
    import opwright as ow
    import opwright_dist as dist

    block, scope, loss = make(dist.data_parallel if parallel else None)
    images, labels = batch(dist.rank())
    call = ow.Network(block).compile(feed=["x", "y"], fetch=[loss], scope=scope)

    def step() -> float:
        return float(call(x=images, y=labels)[0])

    return step, [step() for _ in range(n)]


def divided_training(divided: bool) -> Prepared:
    """Prepare a data-parallel step of the wide MLP, with sharded or unsharded Adam states."""
    step = wide.make_step(divided)[0]
    return step, [step() for _ in range(wide.STEPS_TO_COMPARE)]


def torch_training(
    model: Callable[[], Any], optimizer: Any, batch: Any, n: int, views: bool | None
) -> Prepared:
    """Prepare DistributedDataParallel and a fused optimizer; in one process, only the optimizer."""
    import torch
    from torch import distributed

    network = model()
    if views is not None:
        network = torch.nn.parallel.DistributedDataParallel(
            network, gradient_as_bucket_view=views, static_graph=views
        )
    update = optimizer(network.parameters(), fused=True)
    images, labels = batch(distributed.get_rank())
    x, y = torch.from_numpy(images), torch.from_numpy(labels[:, 0])

    def step() -> float:
        update.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x), y)
        loss.backward()
        update.step()
        return float(loss.item())

    return step, [step() for _ in range(n)]


def torch_mlp() -> Any:
    """Return the MLP as modules."""
    from torch import nn

    first, second, third = (nn.Linear(*sizes) for sizes in zip(mlp.SIZES, mlp.SIZES[1:]))
    network = nn.Sequential(first, nn.Sigmoid(), second, nn.Sigmoid(), third)
    set_parameters(network, mlp.make_parameters())
    return network


def torch_lenet() -> Any:
    """Return LeNet as modules."""
    from torch import nn

    network = nn.Sequential(
        *(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)),
    )
    arrays = [value.T if value.ndim == 2 else value for value in lenet.make_parameters()]
    set_parameters(network, arrays)
    return network


def set_parameters(network: Any, arrays: list[np.ndarray]) -> None:
    """Set the parameters of a network; layer weights are [in, out]."""
    import torch

    with torch.no_grad():
        for parameter, value in zip(network.parameters(), arrays, strict=True):
            turned = value.T if value.ndim == 2 else value
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(turned)))


def make_steps() -> dict[str, dict[str, Callable[[], Prepared]]]:
    """Return the functions that prepare the steps, by engine and name."""
    ours: dict[str, Callable[[], Prepared]] = {
        f"allreduce-{name}": partial(opwright_reduction, n) for name, n in ELEMENTS.items()
    }
    theirs: dict[str, Callable[[], Prepared]] = {
        f"allreduce-{name}": partial(torch_reduction, n) for name, n in ELEMENTS.items()
    }
    mlp_batch, n = partial(mlp.make_batch, BATCH), mlp.STEPS_TO_COMPARE
    one, few = partial(mlp.make_batch, 1), lenet.STEPS_TO_COMPARE
    for suffix, parallel in (("", True), ("-alone", False)):
        for name, make, batch, steps in (
            ("mlp", mlp.make_opwright_step, mlp_batch, n),
            ("mlp-1", mlp.make_opwright_step, one, n),
            ("lenet", lenet.make_opwright_step, lenet.make_batch, few),
        ):
            ours[name + suffix] = partial(opwright_training, make, batch, parallel, steps)
    for suffix, divided in (("", False), ("-divided", True)):
        ours[f"wide{suffix}"] = partial(divided_training, divided)
    for suffix, views in (("", False), ("-views", True), ("-alone", None)):
        for name, model, optimizer, batch, steps in (
            ("mlp", torch_mlp, _sgd, mlp_batch, n),
            ("lenet", torch_lenet, _adam, lenet.make_batch, few),
        ):
            theirs[name + suffix] = partial(torch_training, model, optimizer, batch, steps, views)
    return {"opwright": ours, "torch": theirs}


def _sgd(parameters: Any, **options: bool) -> Any:
    import torch

    return torch.optim.SGD(parameters, lr=mlp.LEARNING_RATE, **options)


def _adam(parameters: Any, **options: bool) -> Any:
    import torch

    return torch.optim.Adam(parameters, lr=lenet.LEARNING_RATE, **options)


STEPS = make_steps()
