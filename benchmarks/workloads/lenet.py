"""One training step of LeNet with Adam, batch 64, 28×28, float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from networks.lenet import (
    LEARNING_RATE,
    STEPS_TO_COMPARE,
    make_batch,
    make_opwright_step,
    make_parameters,
)
from workload import Goal, Timed, Workload


def timed_step(step: Callable[[], float]) -> Timed:
    """Return a step with the losses of its first calls."""
    return Timed(step, values=[step() for _ in range(STEPS_TO_COMPARE)])


def opwright() -> Timed:
    """Prepare a program of layers and one compiled step."""
    import opwright as ow

    block, scope, loss = make_opwright_step()
    images, labels = make_batch()
    call = ow.Network(block).compile(feed=["x", "y"], fetch=[loss], scope=scope)
    return timed_step(lambda: float(call(x=images, y=labels)[0]))


def torch_step(compiled: bool = False, channels_last: bool = False, **options: bool) -> Timed:
    """Prepare functional layers, autograd and torch.optim.Adam."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    layout = torch.channels_last if channels_last else torch.contiguous_format
    images, labels = make_batch()
    x, y = torch.from_numpy(images).to(memory_format=layout), torch.from_numpy(labels[:, 0])
    parameters = [
        (value.to(memory_format=layout) if value.ndim == 4 else value).requires_grad_()
        for value in map(torch.from_numpy, make_parameters())
    ]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, **options)

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        c1, d1, c2, d2, w1, b1, w2, b2 = parameters
        h = F.max_pool2d(F.conv2d(x, c1, d1), 2)
        h = F.max_pool2d(F.conv2d(h, c2, d2), 2)
        h = F.relu(F.linear(h.flatten(1), w1, b1))
        return F.cross_entropy(F.linear(h, w2, b2), y)

    if compiled:
        loss_of = torch.compile(loss_of)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return timed_step(step)


def jax_step() -> Timed:
    """Prepare one jitted function with value_and_grad and Adam, whose state is donated."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    images, labels = make_batch()
    x, y = jnp.asarray(images), jnp.asarray(labels[:, 0])

    def conv_pool(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        h = lax.conv_general_dilated(x, w, (1, 1), "VALID") + b[:, None, None]
        return lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss_of(parameters: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        c1, d1, c2, d2, w1, b1, w2, b2 = parameters
        h = conv_pool(conv_pool(x, c1, d1), c2, d2).reshape(x.shape[0], -1)
        h = jax.nn.relu(h @ w1.T + b1)
        log_prob = jax.nn.log_softmax(h @ w2.T + b2)
        return -jnp.take_along_axis(log_prob, y[:, None], axis=1).mean()

    def adam(p: jax.Array, g: jax.Array, m: jax.Array, v: jax.Array, t: jax.Array) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        rate = LEARNING_RATE / (1 - 0.9**t)
        return p - rate * m / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v

    @partial(jax.jit, donate_argnums=0)
    def update(state: Any, x: jax.Array, y: jax.Array) -> Any:
        parameters, means, variances, t = state
        loss, grads = jax.value_and_grad(loss_of)(parameters, x, y)
        new = [
            adam(*of_one, t + 1) for of_one in zip(parameters, grads, means, variances, strict=True)
        ]
        return (*map(list, zip(*new, strict=True)), t + 1), loss

    parameters = [jnp.asarray(value) for value in make_parameters()]
    zeros = [jnp.zeros_like(value) for value in parameters]
    held = [(parameters, zeros, [jnp.zeros_like(value) for value in parameters], jnp.float32(0))]

    def step() -> float:
        held[0], loss = update(held[0], x, y)
        return float(loss)

    return timed_step(step)


WORKLOADS = [
    Workload(
        "lenet-train-64",
        "LeNet training step, Adam, batch 64",
        "ms",
        {
            "opwright": opwright,
            "torch": torch_step,
            "torch fused": partial(torch_step, fused=True),
            "torch fused channels_last": partial(torch_step, fused=True, channels_last=True),
            "torch.compile": partial(torch_step, compiled=True, fused=True),
            "jax": jax_step,
        },
        {"opwright": [Goal(ratio=0.7, of="torch")]},
        tolerance=1e-3,
    ),
]
