"""A scan of 1,000 steps with a cell of width 16, h = tanh(x[t] @ w + h @ u), batch 1, float32."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from workload import Goal, Timed, Workload

STEPS, SIZE = 1000, 16
CHECKPOINT_EVERY = 32


def make_arrays() -> dict[str, np.ndarray]:
    """Return x [steps, 1, size], w and u [size, size], h0 [1, size]."""
    rng = np.random.default_rng(31)
    shapes = {"x": (STEPS, 1, SIZE), "w": (SIZE, SIZE), "u": (SIZE, SIZE), "h0": (1, SIZE)}
    arrays = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    return arrays | {"w": arrays["w"] / 4, "u": arrays["u"] / 5}


def summarize(loss: Any, gradients: list[np.ndarray]) -> list[float]:
    """Return the loss and the norm of each gradient, with which implementations are compared."""
    return [float(loss), *(float(np.linalg.norm(gradient)) for gradient in gradients)]


def opwright(backward: bool, checkpoint_every: int | None = None) -> Timed:
    """Prepare `layers.scan` with the function of one step."""
    import opwright as ow
    from opwright_nn import layers

    arrays = make_arrays()
    program, scope = ow.Program(), ow.Scope()
    with ow.program_guard(program, ow.Program()):
        x = layers.data("x", shape=[STEPS, 1, SIZE])
        h0 = layers.data("h0", shape=[1, SIZE])
        block = program.global_block()
        w, u = (block.create_parameter(name, [SIZE, SIZE], "float32") for name in "wu")
        last, _ = layers.scan(
            lambda h, x: (layers.tanh(x @ w + h @ u), None),
            h0,
            x,
            checkpoint_every=checkpoint_every,
        )
        loss = ow.ops.sum(ow.ops.square(last))
        pairs = ow.append_backward(loss, parameters=[w, u]) if backward else []
    for name in "wu":
        scope.var(name).set(arrays[name])
    fetch = [loss, *(gradient for _, gradient in pairs)]
    call = ow.Network(block).compile(["x", "h0"], fetch, scope=scope)
    feeds = {"x": arrays["x"], "h0": arrays["h0"]}
    value, *gradients = call(**feeds)
    return Timed(lambda: call(**feeds), values=summarize(value, gradients))


def torch_loop(backward: bool, compiled: bool = False) -> Timed:
    """Prepare a Python loop over the steps, which torch.compile may compile to one function."""
    import torch

    arrays = {name: torch.from_numpy(array) for name, array in make_arrays().items()}
    weights = [arrays[name].requires_grad_(backward) for name in "wu"]

    def cell(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ arrays["w"] + h @ arrays["u"])

    turn = torch.compile(cell) if compiled else cell

    def loss_of(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        for step in x.unbind(0):
            h = turn(step, h)
        return h.square().sum()

    def call() -> Any:
        loss = loss_of(arrays["x"], arrays["h0"])
        if backward:
            for weight in weights:
                weight.grad = None
            loss.backward()
        return loss

    value = call().item()
    gradients = [weight.grad.numpy() for weight in weights] if backward else []
    return Timed(call, values=summarize(value, gradients))


def jax_scan(backward: bool) -> Timed:
    """Prepare a jitted `jax.lax.scan`."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    arrays = {name: jnp.asarray(array) for name, array in make_arrays().items()}

    def loss_of(w: jax.Array, u: jax.Array, x: jax.Array, h0: jax.Array) -> jax.Array:
        last, _ = lax.scan(lambda h, x: (jnp.tanh(x @ w + h @ u), None), h0, x)
        return jnp.square(last).sum()

    run = jax.jit(jax.value_and_grad(loss_of, (0, 1)) if backward else loss_of)
    order = [arrays[name] for name in ("w", "u", "x", "h0")]
    found = run(*order)
    value, gradients = found if backward else (found, [])
    values = summarize(value, [np.asarray(gradient) for gradient in gradients])
    return Timed(lambda: jax.block_until_ready(run(*order)), values=values)


def workload(name: str, title: str, backward: bool) -> Workload:
    """Return one row; opwright with checkpointing is a separate implementation."""
    ours = {"opwright": partial(opwright, backward)}
    if backward:
        ours["opwright checkpoints"] = partial(opwright, backward, CHECKPOINT_EVERY)
    return Workload(
        name,
        title,
        "ms",
        {
            **ours,
            "torch": partial(torch_loop, backward),
            "torch.compile": partial(torch_loop, backward, compiled=True),
            "jax": partial(jax_scan, backward),
        },
        {"opwright": [Goal(ratio=0.1, of="torch")]},
        tolerance=1e-3,
    )


WORKLOADS = [
    workload("scan-1000", "scan of 1,000 steps of a 16-wide cell", backward=False),
    workload("scan-1000-train", "the same, forward and backward", backward=True),
]
