"""Where gradients start and stop in a compiled function, compared with PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import dropout

Function = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def one_value_twice(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    h = x * y
    return h, dropout(h, training=False), h + 1


def a_constant(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x * y, torch.zeros_like(x) + 2


def only_constants(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (x.new_ones(()).expand(2, 3), (x[:0] * y[:0]).repeat(2, 1))


def a_comparison(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (torch.where(x == y, x, x * x),)


def a_step(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (x * y.round(), y.floor().sum())


@pytest.mark.parametrize(
    "function", [one_value_twice, a_constant, only_constants, a_comparison, a_step]
)
def test_gradients_end_at_the_same_tensors_as_in_pytorch(function: Function) -> None:
    compiled = torch.compile(function, backend="opwright", fullgraph=True)
    gradients = []
    for run in (function, compiled):
        torch.manual_seed(5)
        x, y = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
        sums = [out.sum() * (i + 1) for i, out in enumerate(run(x, y)) if out.requires_grad]
        if sums:
            torch.stack(sums).sum().backward()
        gradients.append([torch.zeros(2, 3) if t.grad is None else t.grad for t in (x, y)])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_running_statistics_of_instance_norm_are_updated() -> None:
    model = torch.nn.InstanceNorm1d(3, track_running_stats=True)
    compiled = copy.deepcopy(model)
    x = torch.randn(2, 3, 5)
    torch.testing.assert_close(torch.compile(compiled, backend="opwright")(x), model(x))
    assert model.running_mean is not None
    assert model.running_mean.any()
    torch.testing.assert_close(compiled.running_mean, model.running_mean)
    torch.testing.assert_close(compiled.running_var, model.running_var)
