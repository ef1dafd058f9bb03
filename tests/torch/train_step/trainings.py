"""The same training run in PyTorch, in float32 and float64, and in plans."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import opwright_torch

Make = Callable[[Any], torch.optim.Optimizer]
Batch = tuple[torch.Tensor, torch.Tensor]
SLACK = 4
"""The permitted error, as a multiple of the error of PyTorch in float32."""


def network(seed: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def batch(seed: int, n: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 6, generator=generator), torch.arange(n) % 4


def batches(n: int = 10, rows: int = 5) -> list[Batch]:
    return [batch(i, rows) for i in range(n)]


def eager(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Iterable[Batch],
    after: Callable[[int], object] = lambda _: None,
    clip: Callable[[Any], object] = lambda _: None,
) -> None:
    """Train with an ordinary loop in PyTorch."""
    dtype = next(model.parameters()).dtype
    for i, (x, y) in enumerate(data):
        optimizer.zero_grad()
        functional.cross_entropy(model(x.to(dtype)), y).backward()
        clip(model.parameters())
        optimizer.step()
        after(i)


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer, **how: Any) -> Any:
    return opwright_torch.train_step(model, functional.cross_entropy, optimizer, **how)


def values(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters and the optimizer state, in a fixed order."""
    states = optimizer.state_dict()["state"]
    kept = [value for _, state in sorted(states.items()) for _, value in sorted(state.items())]
    return [*(p.detach() for p in model.parameters()), *(v for v in kept if v is not None)]


def kept_names(optimizer: torch.optim.Optimizer) -> dict[int, list[str]]:
    """Return the names of the optimizer states, by parameter."""
    return {i: sorted(state) for i, state in optimizer.state_dict()["state"].items()}


def assert_as_exact(
    found: Sequence[torch.Tensor], single: Sequence[torch.Tensor], double: Sequence[torch.Tensor]
) -> None:
    """Assert that errors against float64 are at most four times PyTorch's errors."""
    assert len(found) == len(single) == len(double)
    for own, theirs in zip(found, single, strict=True):
        assert (own.shape, own.dtype) == (theirs.shape, theirs.dtype)
    bound = SLACK * max(_error(single, double), torch.finfo(torch.float32).eps)
    assert _error(found, double) <= bound


def _error(values: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    """Return the largest error, relative to the largest element of its tensor."""
    errors = [
        float((value.double() - other).abs().max() / other.abs().max().clamp(min=1e-30))
        for value, other in zip(values, exact, strict=True)
        if other.numel()
    ]
    return max(errors)


def check(
    make: Make,
    data: Sequence[Batch],
    follow: Callable[[torch.optim.Optimizer], Callable[[int], object]] = lambda _: lambda _: None,
    clip: Callable[[Any], object] = lambda _: None,
    model: nn.Module | None = None,
    **how: Any,
) -> Any:
    """Train a model in all three ways and compare them; return our step."""
    ours = network() if model is None else model
    twins = copy.deepcopy(ours), copy.deepcopy(ours).double()
    results, keys = [], []
    for twin in twins:
        optimizer = make(twin.parameters())
        eager(twin, optimizer, data, follow(optimizer), clip)
        results.append(values(twin, optimizer))
        keys.append(kept_names(optimizer))
    optimizer = make(ours.parameters())
    step, after = step_of(ours, optimizer, **how), follow(optimizer)
    for i, (x, y) in enumerate(data):
        step(x, y)
        after(i)
    assert_as_exact(values(ours, optimizer), *results)
    assert kept_names(optimizer) == keys[0]
    return step
