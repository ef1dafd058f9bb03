"""One training step of a small GPT with Adam, batch 32, 64 characters, float32 without TF32."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpu import HOWS, OurProgram, open_opwright, open_torch, time_torch, time_training
from networks.gpt import (
    LEARNING_RATE,
    STEPS_TO_COMPARE,
    make_batch,
    make_opwright_step,
    make_torch_parameters,
    torch_loss,
)
from workload import Goal, Timed, Workload


def opwright(tunes: bool = True) -> Timed:
    """Prepare a compiled program of layers."""
    open_opwright()
    block, scope, loss = make_opwright_step()
    characters, following = make_batch()
    zero = np.zeros(loss.shape, "float32")
    inputs = {"x": characters, "y": following}
    program = OurProgram(block, scope, inputs, {loss.name: zero}, tunes=tunes)
    return time_training(program, STEPS_TO_COMPARE)


def torch(how: str) -> Timed:
    """Prepare the same step in PyTorch, with fused attention and a fused optimizer."""
    torch, device = open_torch()
    x, y = (torch.from_numpy(array).to(device) for array in make_batch())
    parameters = make_torch_parameters(device)
    optimizer = torch.optim.Adam(
        parameters, lr=LEARNING_RATE, fused=True, capturable=device == "cuda"
    )

    def loss_of() -> Any:
        return torch_loss(x, y, parameters)

    return time_torch(how, parameters, optimizer, loss_of, STEPS_TO_COMPARE)


WORKLOADS = [
    Workload(
        "gpt-train-32",
        "GPT training step, 3 blocks, 128 wide, Adam, batch 32 of 64 characters",
        "µs",
        {
            "opwright": opwright,
            "opwright, cuBLASLt's first algorithms": partial(opwright, tunes=False),
            **{f"torch {how}": partial(torch, how) for how in HOWS},
        },
        {"opwright": [Goal(ratio=1.0, of="torch")]},
        tolerance=1e-3,
    ),
]
