"""One training step of 784-200-200-10 with sigmoid, SGD, float32; batch 64 and batch 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from networks.mlp import (
    LEARNING_RATE,
    STEPS_TO_COMPARE,
    make_batch,
    make_opwright_model,
    make_parameters,
)
from workload import Goal, Timed, Workload


def timed_step(step: Callable[[], Any], to_float: Callable[[Any], float] = float) -> Timed:
    """Return a step with the losses of its first calls."""
    return Timed(step, values=[to_float(step()) for _ in range(STEPS_TO_COMPARE)])


def opwright_model(batch: int) -> Timed:
    """Prepare a typical user loop: fill, fill, run."""
    model, _ = make_opwright_model(batch)
    images, labels = make_batch(batch)

    def step() -> list[np.ndarray]:
        model.fill("img", images)
        model.fill("label", labels)
        return model.run()

    return timed_step(step, lambda fetched: float(fetched[0]))


def opwright_step(batch: int) -> Timed:
    """Prepare the same step as a compiled network that is called without a Model."""
    import opwright as ow

    model, loss = make_opwright_model(batch)
    images, labels = make_batch(batch)
    network = ow.Network(model.program.global_block())
    call = network.compile(feed=["img", "label"], fetch=[loss], scope=model.scope)
    return timed_step(lambda: call(img=images, label=labels), lambda fetched: float(fetched[0]))


def torch_tensors(batch: int) -> tuple[Any, Any, list[Any]]:
    """Return images, labels and parameters that require gradients."""
    import torch

    images, labels = make_batch(batch)
    # As in nn.Linear: [out, in].
    parameters = [
        torch.from_numpy(np.ascontiguousarray(value.T)).requires_grad_()
        for value in make_parameters()
    ]
    return torch.from_numpy(images), torch.from_numpy(labels[:, 0]), parameters


def torch_loss(x: Any, y: Any, parameters: list[Any]) -> Any:
    """Compute the loss with PyTorch's fused log-softmax and negative log-likelihood."""
    from torch.nn import functional as F  # noqa: N812

    w1, b1, w2, b2, w3, b3 = parameters
    h = F.linear(x, w1, b1).sigmoid_()
    h = F.linear(h, w2, b2).sigmoid_()
    return F.cross_entropy(F.linear(h, w3, b3), y)


def torch_manual(batch: int) -> Timed:
    """Prepare gradients directly from autograd.grad, and the update as one multi-tensor call."""
    import torch

    x, y, parameters = torch_tensors(batch)

    def step() -> float:
        loss = torch_loss(x, y, parameters)
        grads = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, grads, alpha=-LEARNING_RATE)
        return loss.item()

    return timed_step(step)


def torch_optimizer(batch: int, **options: bool) -> Timed:
    """Prepare the usual loop: zero_grad, backward, torch.optim.SGD."""
    import torch

    x, y, parameters = torch_tensors(batch)
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE, **options)

    def step() -> float:
        optimizer.zero_grad()
        loss = torch_loss(x, y, parameters)
        loss.backward()
        optimizer.step()
        return loss.item()

    return timed_step(step)


def torch_compiled(batch: int) -> Timed:
    """Prepare the loss and its gradient with torch.compile, and the update as one call."""
    import torch

    x, y, parameters = torch_tensors(batch)
    loss_of = torch.compile(torch_loss)

    def step() -> float:
        loss = loss_of(x, y, parameters)
        grads = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, grads, alpha=-LEARNING_RATE)
        return loss.item()

    return timed_step(step)


def jax_step(batch: int) -> Timed:
    """Prepare one jitted function with its parameters donated."""
    import jax
    import jax.numpy as jnp

    images, labels = make_batch(batch)
    x, y = jnp.asarray(images), jnp.asarray(labels[:, 0])
    held = [[jnp.asarray(value) for value in make_parameters()]]

    def loss_of(parameters: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        w1, b1, w2, b2, w3, b3 = parameters
        h = jax.nn.sigmoid(x @ w1 + b1)
        h = jax.nn.sigmoid(h @ w2 + b2)
        log_prob = jax.nn.log_softmax(h @ w3 + b3)
        return -jnp.take_along_axis(log_prob, y[:, None], axis=1).mean()

    @partial(jax.jit, donate_argnums=0)
    def update(parameters: list[jax.Array], x: jax.Array, y: jax.Array) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(parameters, x, y)
        new = [p - LEARNING_RATE * g for p, g in zip(parameters, grads, strict=True)]
        return new, loss

    def step() -> float:
        held[0], loss = update(held[0], x, y)
        return float(loss)

    return timed_step(step)


def make_workload(batch: int, ratio: float) -> Workload:
    """Return the row of one batch size."""
    goal = [Goal(ratio=ratio)]
    implementations = {
        "opwright Model": opwright_model,
        "opwright step": opwright_step,
        "torch": torch_manual,
        "torch.optim": torch_optimizer,
        "torch.optim foreach": partial(torch_optimizer, foreach=True),
        "torch.optim fused": partial(torch_optimizer, fused=True),
        "torch.compile": torch_compiled,
        "jax": jax_step,
    }
    return Workload(
        f"mlp-train-{batch}",
        f"training step 784-200-200-10 sigmoid, SGD, batch {batch}",
        "µs",
        {name: partial(make, batch) for name, make in implementations.items()},
        {"opwright Model": goal, "opwright step": goal},
    )


WORKLOADS = [make_workload(64, 0.4), make_workload(1, 0.4)]
