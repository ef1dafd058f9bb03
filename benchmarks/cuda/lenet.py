"""One training step of LeNet with Adam, batch 64, 28×28, float32 without TF32, data on the GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpu import (
    HOWS,
    OurProgram,
    convolve_by,
    open_opwright,
    open_torch,
    time_torch,
    time_training,
)
from networks.lenet import (
    LEARNING_RATE,
    STEPS_TO_COMPARE,
    make_batch,
    make_opwright_step,
    make_parameters,
)
from workload import Goal, Timed, Workload


def opwright(library: str) -> Timed:
    """Prepare a compiled program of layers, with the convolutions of one library."""
    open_opwright()
    convolve_by(library)
    block, scope, loss = make_opwright_step()
    images, labels = make_batch()
    zero = np.zeros(loss.shape, "float32")
    program = OurProgram(block, scope, {"x": images, "y": labels}, {loss.name: zero})
    return time_training(program, STEPS_TO_COMPARE)


def torch(how: str, channels_last: bool = True) -> Timed:
    """Prepare the same step in PyTorch, with a fused optimizer."""
    torch, device = open_torch()
    from torch.nn import functional as F  # noqa: N812

    layout = torch.channels_last if channels_last else torch.contiguous_format
    images, labels = make_batch()
    x = torch.from_numpy(images).to(device, memory_format=layout)
    y = torch.from_numpy(labels[:, 0]).to(device)
    on_device = [torch.from_numpy(value).to(device) for value in make_parameters()]
    parameters = [
        (value.to(memory_format=layout) if value.ndim == 4 else value).requires_grad_()
        for value in on_device
    ]
    c1, d1, c2, d2, w1, b1, w2, b2 = parameters

    def loss_of() -> Any:
        h = F.max_pool2d(F.conv2d(x, c1, d1), 2)
        h = F.max_pool2d(F.conv2d(h, c2, d2), 2)
        h = F.relu(F.linear(h.flatten(1), w1, b1))
        return F.cross_entropy(F.linear(h, w2, b2), y)

    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True, capturable=True)
    return time_torch(how, parameters, optimizer, loss_of, STEPS_TO_COMPARE)


WORKLOADS = [
    Workload(
        "lenet-train-64",
        "LeNet training step, Adam, batch 64",
        "µs",
        {
            "opwright": partial(opwright, "cudnn"),
            "opwright, own convolutions": partial(opwright, "native"),
            **{f"torch {how}": partial(torch, how) for how in HOWS},
            "torch graph, contiguous": partial(torch, "graph", channels_last=False),
        },
        {"opwright": [Goal(ratio=1.0, of="torch")]},
        tolerance=1e-3,
    ),
]
