"""One training step of a small GPT on characters with Adam, batch 32, 64 characters, float32."""

from __future__ import annotations

from functools import partial

from networks.gpt import (
    LEARNING_RATE,
    STEPS_TO_COMPARE,
    make_batch,
    make_opwright_step,
    make_torch_parameters,
    torch_loss,
)
from workload import Goal, Timed, Workload


def opwright() -> Timed:
    """Prepare a program of layers and one compiled step."""
    import opwright as ow

    block, scope, loss = make_opwright_step()
    characters, following = make_batch()
    call = ow.Network(block).compile(feed=["x", "y"], fetch=[loss], scope=scope)

    def step() -> float:
        return float(call(x=characters, y=following)[0])

    return Timed(step, values=[step() for _ in range(STEPS_TO_COMPARE)])


def torch_step(compiled: bool = False, **options: bool) -> Timed:
    """Prepare functional layers, autograd and torch.optim.Adam."""
    import torch

    x, y = map(torch.from_numpy, make_batch())
    parameters = make_torch_parameters("cpu")
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, **options)
    loss_of = torch.compile(torch_loss) if compiled else torch_loss

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(x, y, parameters)
        loss.backward()
        optimizer.step()
        return loss.item()

    return Timed(step, values=[step() for _ in range(STEPS_TO_COMPARE)])


WORKLOADS = [
    Workload(
        "gpt-train",
        "GPT training step, 3 blocks, 128 wide, Adam, batch 32 of 64 characters",
        "ms",
        {
            "opwright": opwright,
            "torch": torch_step,
            "torch fused": partial(torch_step, fused=True),
            "torch.compile": partial(torch_step, compiled=True, fused=True),
        },
        {"opwright": [Goal(ratio=0.45, of="torch")]},
        tolerance=1e-3,
    ),
]
