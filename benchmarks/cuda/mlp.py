"""One training step of 784-200-200-10 with sigmoid, SGD, float32; batch 64 and 1,024.

For all implementations, images, labels, parameters and the loss are on the GPU, and steps do not
read the loss. "Model" is an exception: its caller fills in device arrays and receives the loss of
each step.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpu import HOWS, OurProgram, open_opwright, open_torch, put_on_gpu, time_torch, time_training
from networks.mlp import (
    LEARNING_RATE,
    SIZES,
    STEPS_TO_COMPARE,
    make_batch,
    make_opwright_model,
    make_parameters,
)
from workload import Goal, Timed, Workload


def opwright_step(batch: int) -> Timed:
    """Prepare a compiled program of layers."""
    open_opwright()
    import opwright as ow
    import opwright_nn as nn
    from opwright_nn import layers

    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        h = layers.data("x", shape=[None, SIZES[0]])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        for size in SIZES[1:-1]:
            h = layers.fc(h, size=size, activation="sigmoid")
        logits = layers.fc(h, size=SIZES[-1])
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
        nn.optimizer.SGD(LEARNING_RATE).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    for parameter, value in zip(main.parameters(), make_parameters(), strict=True):
        scope.find_var(parameter.name).set(value)
    images, labels = make_batch(batch)
    zero = np.zeros(loss.shape, "float32")
    program = OurProgram(main.global_block(), scope, {"x": images, "y": labels}, {loss.name: zero})
    return time_training(program, STEPS_TO_COMPARE)


def opwright_model(batch: int) -> Timed:
    """Prepare a typical user loop (fill, fill, run) with arrays on the device."""
    open_opwright()
    model, _ = make_opwright_model(batch, "cuda")
    images, labels = make_batch(batch)
    feeds = put_on_gpu(images), put_on_gpu(labels)

    def step() -> Any:
        model.fill("img", feeds[0])
        model.fill("label", feeds[1])
        return model.run()

    return Timed(step, values=[float(step()[0]) for _ in range(STEPS_TO_COMPARE)])


def torch(batch: int, how: str) -> Timed:
    """Prepare the same step in PyTorch, with a fused loss and a fused optimizer."""
    torch, device = open_torch()
    from torch.nn import functional as F  # noqa: N812

    images, labels = make_batch(batch)
    x, y = torch.from_numpy(images).to(device), torch.from_numpy(labels[:, 0]).to(device)
    # As in nn.Linear: [out, in].
    parameters = [
        torch.from_numpy(np.ascontiguousarray(value.T)).to(device).requires_grad_()
        for value in make_parameters()
    ]
    w1, b1, w2, b2, w3, b3 = parameters

    def loss_of() -> Any:
        h = torch.sigmoid(F.linear(x, w1, b1))
        h = torch.sigmoid(F.linear(h, w2, b2))
        return F.cross_entropy(F.linear(h, w3, b3), y)

    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE, fused=True)
    return time_torch(how, parameters, optimizer, loss_of, STEPS_TO_COMPARE)


def make_workload(batch: int) -> Workload:
    """Return the row of one batch size."""
    peers = {f"torch {how}": partial(torch, batch, how) for how in HOWS}
    return Workload(
        f"mlp-train-{batch}",
        f"training step 784-200-200-10 sigmoid, SGD, batch {batch}",
        "µs",
        {
            "opwright": partial(opwright_step, batch),
            "opwright Model": partial(opwright_model, batch),
            **peers,
        },
        {"opwright": [Goal(ratio=1.0, of="torch")]},
        tolerance=1e-3,
    )


WORKLOADS = [make_workload(64), make_workload(1024)]
