"""Captured graphs are functional, minimal, and annotated with all that consumers need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from opwright_torch.capture import is_kept

aten = torch.ops.aten


class Function(nn.Module):
    """A function of a layer and tensors."""

    def __init__(self, function: Callable[..., Any], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.function = function
        self.layer = layer or nn.Linear(4, 4)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self.layer, *inputs)


def graph_of(check: Any, function: Any, *inputs: Any, layer: Any = None, **options: Any) -> Any:
    """Return the captured graph of a function, after comparing the results of both."""
    (captured,) = check(Function(function, layer), *inputs, **options)
    return captured.module.graph


def targets(graph: Any) -> list[Any]:
    """Return the call targets of a graph, except getitem."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    return [node.target for node in nodes if isinstance(node.target, torch._ops.OpOverload)]


WHOLE: dict[Any, Callable[..., Any]] = {
    aten.linear.default: lambda f, x: f(x),
    aten.gelu.default: lambda f, x: F.gelu(x),
    aten.layer_norm.default: lambda f, x: F.layer_norm(x, (4,)),
    aten.group_norm.default: lambda f, x: F.group_norm(x, 2),
    aten.conv1d.default: lambda f, x: F.conv1d(x[None], x[None, :, :2]),
    aten.scaled_dot_product_attention.default: lambda f, x: F.scaled_dot_product_attention(x, x, x),
    aten.cross_entropy_loss.default: lambda f, x: F.cross_entropy(x, x.softmax(1)),
    aten.dropout.default: lambda f, x: F.dropout(x),
    aten.einsum.default: lambda f, x: torch.einsum("ij,kj->ik", x, x),
    aten.embedding.default: lambda f, x: F.embedding(x.abs().long().clamp(max=3), f.weight),
    aten.matmul.default: lambda f, x: x @ x.T,
}


@pytest.mark.parametrize("target", WHOLE, ids=str)
def test_a_composite_operator_is_one_node(target: Any, check: Any) -> None:
    found = targets(graph_of(check, WHOLE[target], torch.randn(3, 4)))
    assert found.count(target) == 1
    assert len(found) <= 7


def test_a_batch_norm_is_one_node(check: Any) -> None:
    graph = graph_of(check, lambda f, x: f(x), torch.randn(3, 4), layer=nn.BatchNorm1d(4))
    assert targets(graph) == [aten.add.Tensor, aten._native_batch_norm_legit_functional.default]


def test_every_node_has_a_value_and_a_gradient_flag(check: Any) -> None:
    graph = graph_of(check, lambda f, x: F.relu_(f(x)).sum(0)[:2] * x.shape[0], torch.randn(3, 4))
    for node in graph.nodes:
        if node.op != "output":
            assert "val" in node.meta
            assert node.meta["requires_grad"] in (True, False)
        if node.op == "call_function":
            assert "test_graphs.py" in node.meta["stack_trace"]


def test_placeholders_keep_the_names_given_by_dynamo(check: Any) -> None:
    graph = graph_of(check, lambda f, x: f(x), torch.randn(3, 4))
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    assert [name for name in names if "layer_parameters_weight" in name]
    assert [name for name in names if "inputs_0" in name]


def test_detach_is_kept_if_it_stops_a_gradient(check: Any) -> None:
    def function(f: Any, x: Any) -> Any:
        return f(x) * f(x).detach() + x.detach()

    nodes = graph_of(check, function, torch.randn(3, 4)).nodes
    (detach,) = [node for node in nodes if node.target is aten.detach.default]
    assert detach.args[0].meta["requires_grad"]
    assert not detach.meta["requires_grad"]


def test_nodes_do_not_require_gradients_under_no_grad(check: Any) -> None:
    with torch.no_grad():
        nodes = graph_of(check, lambda f, x: f(x).detach().view_as(x) * 2, torch.randn(3, 4)).nodes
    assert [node.target for node in nodes if node.op == "call_function"] == [
        aten.linear.default,
        aten.mul.Tensor,
    ]
    assert not any(node.meta["requires_grad"] for node in nodes if node.op == "call_function")


def test_a_node_that_does_not_depend_on_inputs_is_a_constant(check: Any) -> None:
    def function(f: Any, x: Any) -> Any:
        mask = x.new_zeros(4, 4)
        for count, rows in enumerate((slice(0, 2), slice(2, -1), slice(-1, None))):
            mask[rows, :] = count
        return f(x) + (mask[None] - mask[:, None]).ne(0).sum(0)

    graph = graph_of(check, function, torch.randn(4, 4))
    assert targets(graph) == [aten.linear.default, aten.add.Tensor]


def test_a_fill_is_not_folded_into_a_constant(check: Any) -> None:
    graph = graph_of(check, lambda f, x: x + torch.ones(1, 4).expand(3, 4), torch.randn(3, 4))
    assert targets(graph) == [aten.ones.default, aten.expand.default, aten.add.Tensor]


def test_a_random_node_is_not_folded_into_a_constant(check: Any) -> None:
    graph = graph_of(check, lambda f, x: x + torch.rand(4).floor().sin(), torch.randn(3, 4))
    assert aten.rand.default in targets(graph)


def test_an_unused_node_is_removed(check: Any) -> None:
    def function(f: Any, x: Any) -> Any:
        f(x).sum()
        return x * 2

    assert targets(graph_of(check, function, torch.randn(3, 4))) == [aten.mul.Tensor]


def test_a_varying_float_stays_a_tensor(check: Any) -> None:
    def function(f: Any, x: Any, scale: float) -> Any:
        return F.layer_norm(x, (4,)) * scale

    graph = graph_of(check, function, torch.randn(3, 4), 1.5, dynamic=True)
    (product,) = [node for node in graph.nodes if node.target is aten.mul.Tensor]
    assert product.args[1].op == "placeholder"
    assert product.args[1].meta["val"].dtype == torch.float64


def test_a_float_that_is_needed_as_a_number_becomes_a_constant(check: Any) -> None:
    def function(f: Any, x: Any, scale: float) -> Any:
        return F.leaky_relu(x, scale) + x.long() * scale + scale / 2

    graph = graph_of(check, function, torch.randn(3, 4), 1.5, dynamic=True)
    assert not [n for n in graph.nodes if isinstance(n.meta.get("val"), torch.SymFloat)]


def test_checkpointing_leaves_no_nodes_in_the_graph(check: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    def function(f: Any, x: Any) -> Any:
        return checkpoint(lambda x: f(x).sin(), x, use_reentrant=False)

    graph = graph_of(check, function, torch.randn(3, 4))
    assert targets(graph) == [aten.linear.default, aten.sin.default]


def test_parameters_and_buffers_are_kept_and_data_is_fed(check: Any) -> None:
    kept: dict[str, bool] = {}

    def backend(module: Any, inputs: Any) -> Any:
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        kept.update((node.name, is_kept(given)) for node, given in zip(nodes, inputs))
        return module.forward

    torch.compile(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), backend=backend)(
        torch.randn(3, 4)
    )
    assert len(kept) == 8
    assert list(kept.values()).count(False) == 1


def test_a_failure_leaves_autocast_and_grad_unchanged(check: Any) -> None:
    def function(f: Any, x: Any, y: Any) -> Any:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            h = f(x)
        x.data = y
        return h

    with pytest.raises(Exception, match="replaces the storage"):
        graph_of(check, function, torch.randn(3, 4), torch.randn(3, 4))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
