"""The caller receives the same results and sees the same mutations as with PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from opwright_torch.capture import size_values


class Function(nn.Module):
    """Wraps a function as a model."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self.weight, *inputs)


def replay(function: Any, *inputs: Any, check: Any, **options: Any) -> tuple[Any, Any]:
    """Compare a function with its captured graph; return the graph and the model."""
    model = Function(function)
    (captured,) = check(model, *inputs, **options)
    return captured, model


def test_a_view_of_an_input_shares_its_memory(check: Any) -> None:
    captured, _ = replay(lambda w, x: (x * w, x[1:, ::2].T), torch.randn(3, 4), check=check)
    product, view = captured.outputs
    assert (product.source, view.source) == ("computed", "input")
    x = torch.randn(3, 4)
    made = view.make([], [x] * 2, {})
    assert made.data_ptr() == x[1:].data_ptr()
    torch.testing.assert_close(made, x[1:, ::2].T)


def test_a_view_of_an_input_uses_the_sizes_of_each_call(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        return x * w, x[1:, ::2].T

    captured, _ = replay(function, torch.randn(3, 4), check=check, dynamic=True)
    nodes = [node for node in captured.module.graph.nodes if node.op == "placeholder"]
    x = torch.randn(7, 4)
    given = [7 if isinstance(node.meta["val"], torch.SymInt) else x for node in nodes]
    given = [torch.ones(4) if "weight" in node.name else v for node, v in zip(nodes, given)]
    made = captured.outputs[1].make([], given, size_values(captured.module, given))
    torch.testing.assert_close(made, x[1:, ::2].T)


def test_gradients_flow_through_views_of_inputs(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        return x.view(-1)[:4], x * w

    replay(function, torch.randn(3, 4, requires_grad=True), check=check)


def test_a_detached_input_does_not_require_a_gradient(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        return x.detach(), x * w

    captured, _ = replay(function, torch.randn(3, 4, requires_grad=True), check=check)
    assert [output.requires_grad for output in captured.outputs] == [False, True]


def test_aliased_outputs_stay_aliased_for_the_caller(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        h = x * w
        return h[0], h[1:], h.view(-1)

    captured, _ = replay(function, torch.randn(3, 4), check=check)
    assert {output.position for output in captured.outputs} == {0}
    base = torch.arange(12.0).view(3, 4)
    made = [output.make([base], [], {}) for output in captured.outputs]
    assert len({tensor.untyped_storage().data_ptr() for tensor in made}) == 1


def test_an_input_that_is_changed_and_returned_is_the_same_tensor(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        x.add_(1)
        return x[1], x.view(-1), x.sum() * w

    captured, _ = replay(function, torch.randn(3, 4), check=check, steps=2)
    assert [output.source for output in captured.outputs] == ["input", "input", "computed"]
    (mutation,) = captured.mutations
    assert not mutation.requires_grad


def test_gradients_flow_to_a_changed_input(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        x.mul_(w)
        return x.sin()

    captured, _ = replay(function, torch.randn(3, 4), check=check)
    (mutation,) = captured.mutations
    assert mutation.requires_grad


def test_copying_an_input_into_another_input_makes_a_copy(check: Any) -> None:
    def function(w: Any, x: Any, y: Any) -> Any:
        x.copy_(y)
        return x * w

    replay(function, torch.randn(3, 4), torch.randn(3, 4), check=check)


def test_a_value_copied_into_an_input_is_broadcast_and_cast(check: Any) -> None:
    def function(w: Any, x: Any, y: Any) -> Any:
        x.copy_(y)
        return x * w

    replay(function, torch.randn(3, 4), torch.randn(4, dtype=torch.float64), check=check)


def test_constants_and_sizes_are_outputs(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        return x * w, x.shape[0] + 1, None, 2.5, "text", torch.arange(3)

    replay(function, torch.randn(3, 4), check=check, dynamic=True)


def test_a_changed_input_is_refused_if_another_input_shares_its_memory(check: Any) -> None:
    def function(w: Any, x: Any, y: Any) -> Any:
        x.add_(1)
        return x[0] * y

    x = torch.randn(3, 4)
    with pytest.raises(Exception, match="that shares memory with another"):
        replay(function, x, x[1], check=check)


def test_a_parameter_that_is_clamped_under_no_grad_keeps_its_gradient(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        with torch.no_grad():
            w.clamp_(-0.5, 0.5)
        return (w * x).sin()

    captured, _ = replay(function, torch.randn(3, 4), check=check)
    (mutation,) = captured.mutations
    assert not mutation.requires_grad


def test_gradients_flow_through_a_change_under_no_grad(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        h = w * x
        with torch.no_grad():
            h.clamp_(-0.5, 0.5)
            h.mul_(2)
        return h.sin()

    replay(function, torch.randn(3, 4), check=check)


def test_changing_a_view_under_no_grad_is_refused(check: Any) -> None:
    def function(w: Any, x: Any) -> Any:
        h = w * x
        with torch.no_grad():
            h[0].zero_()
        return h.sin()

    with pytest.raises(
        Exception, match="modifies a view of a tensor that requires gradients under no_grad"
    ):
        replay(function, torch.randn(3, 4), check=check)


def test_an_input_whose_storage_is_replaced_is_refused(check: Any) -> None:
    def function(w: Any, x: Any, y: Any) -> Any:
        x.data = y
        return x * w

    with pytest.raises(Exception, match="replaces the storage of its input"):
        replay(function, torch.randn(3, 4), torch.randn(3, 4), check=check)
