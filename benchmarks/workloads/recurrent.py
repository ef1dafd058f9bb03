"""Forward and backward of LSTM and GRU, 2 layers, 256 wide: 64 steps, batch 32, float32."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from workload import Goal, Timed, Workload

STEPS, BATCH, SIZE, LAYERS = 64, 32, 256, 2
GATES = {"lstm": 4, "gru": 3}


def make_arrays(kind: str) -> tuple[np.ndarray, list[list[np.ndarray]]]:
    """Return x [steps, batch, size], and weight_ih, weight_hh, bias_ih, bias_hh of each layer."""
    rng = np.random.default_rng(21)
    rows, bound = GATES[kind] * SIZE, 1 / np.sqrt(SIZE)
    shapes = ((rows, SIZE), (rows, SIZE), (rows,), (rows,))
    layers = [
        [rng.uniform(-bound, bound, shape).astype("float32") for shape in shapes]
        for _ in range(LAYERS)
    ]
    return rng.normal(size=(STEPS, BATCH, SIZE)).astype("float32"), layers


def summarize(loss: Any, gradients: list[np.ndarray]) -> list[float]:
    """Return the loss and the norm of each gradient, with which implementations are compared."""
    return [float(loss), *(float(np.linalg.norm(gradient)) for gradient in gradients)]


def opwright(kind: str) -> Timed:
    """Prepare one operator and its gradient, with the parameters in the scope."""
    import opwright as ow

    x, layers = make_arrays(kind)
    program, scope = ow.Program(), ow.Scope()
    block = program.global_block()
    block.create_var("x", x.shape, "float32", is_data=True)
    slots: dict[str, list[Any]] = {"x": ["x"]}
    for slot in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        slots[slot] = []
        for layer in range(LAYERS):
            value = layers[layer][0]
            del layers[layer][0]  # the scope has a copy
            slots[slot].append(block.create_parameter(f"{slot}_{layer}", value.shape, "float32"))
            scope.var(f"{slot}_{layer}").set(value)
            del value
    block.append_op(kind, slots, {"out": "out"})
    block.append_op("square", {"x": "out"}, {"out": "squares"})
    block.append_op("mean", {"x": "squares"}, {"out": "loss"})
    pairs = ow.append_backward(block.var("loss"))
    fetch = ["loss", *(gradient.name for _, gradient in pairs)]
    order = [f"{slot}_{i}" for i in range(LAYERS) for slot in tuple(slots)[1:]]
    call = ow.Network(block).compile(["x"], fetch, scope=scope)
    loss, *gradients = call(x=x)
    found = {v.name: g for (v, _), g in zip(pairs, gradients, strict=True)}
    return Timed(lambda: call(x=x), values=summarize(loss, [found[name] for name in order]))


def torch_step(kind: str, compiled: bool = False) -> Timed:
    """Prepare `torch.nn.LSTM` or `torch.nn.GRU` and autograd."""
    import torch

    x, layers = make_arrays(kind)
    model = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](SIZE, SIZE, LAYERS)
    values = [value for layer in layers for value in layer]
    for parameter, value in zip(model.parameters(), values, strict=True):
        parameter.data = torch.from_numpy(value)
    data = torch.from_numpy(x)

    def loss_of(data: torch.Tensor) -> torch.Tensor:
        return model(data)[0].square().mean()

    run = torch.compile(loss_of) if compiled else loss_of

    def step() -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        loss = run(data)
        loss.backward()
        return loss

    loss = step().item()
    return Timed(step, values=summarize(loss, [p.grad.numpy() for p in model.parameters()]))


def workload(kind: str, goals: dict[str, list[Goal]]) -> Workload:
    """Return the row of one kind of layer."""
    return Workload(
        f"{kind}-train",
        f"{kind.upper()} of 2 layers, 256 wide, 64 steps, batch 32: forward and backward",
        "ms",
        {
            "opwright": partial(opwright, kind),
            "torch": partial(torch_step, kind),
            "torch.compile": partial(torch_step, kind, compiled=True),
        },
        goals,
        tolerance=1e-3,
    )


WORKLOADS = [
    workload("lstm", {"opwright": [Goal(ratio=0.8, of="torch")]}),
    workload("gru", {}),
]
