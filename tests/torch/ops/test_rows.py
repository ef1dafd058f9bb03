"""Our operators in a PyTorch graph become operators of one plan."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from plans import translated

from opwright_torch import ops

X = torch.linspace(-1.2, 1.1, 24).reshape(4, 6)
W = torch.linspace(0.1, 0.9, 30).reshape(6, 5)

CASES: dict[str, tuple[Any, set[str]]] = {
    "one result": (lambda x, w: ops.softmax(ops.matmul(x, w)), {"matmul", "softmax"}),
    "beside ATen": (lambda x, w: torch.relu(ops.tanh(x)) + 1, {"tanh", "relu"}),
    "several results": (lambda x, w: ops.top_k(x, k=2)[0], {"top_k"}),
    "lists": (lambda x, w: ops.concat(ops.split(x, num=2, axis=1)[::-1]), {"split", "concat"}),
    "by name": (lambda x, w: ops.layer_norm(x, returns="inv_std") * 1, {"layer_norm"}),
}


@pytest.fixture(autouse=True)
def _forgets_graphs() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_function_runs_our_operators(name: str) -> None:
    function, expected = CASES[name]
    found = translated(function, [X, W])
    assert not found.declined
    assert expected <= {op.type for op in found.program.global_block().ops}
    compiled = torch.compile(function, fullgraph=True, backend="opwright")
    torch.testing.assert_close(compiled(X, W), function(X, W))


def test_gradients_flow_through_our_operators() -> None:
    def run(function: Any) -> list[torch.Tensor]:
        x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
        return list(torch.autograd.grad(function(x, w), (x, w)))

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (ops.gelu(ops.matmul(x, w)) * torch.arange(5)).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="opwright")
    torch.testing.assert_close(run(compiled), run(loss))


def test_a_transform_runs_our_gradients() -> None:
    function = torch.func.grad(lambda x: ops.sum(ops.square(x)))
    compiled = torch.compile(function, fullgraph=True, backend="opwright")
    torch.testing.assert_close(compiled(X), 2 * X)


def test_state_stays_unchanged() -> None:
    mean, variance = torch.zeros(6), torch.ones(6)

    def call(x: torch.Tensor) -> Any:
        return ops.batch_norm(x, variance, mean, mean, variance, training=True)

    compiled = torch.compile(call, fullgraph=True, backend="opwright")
    torch.testing.assert_close(compiled(X), call(X))
    assert torch.equal(mean, torch.zeros(6))
