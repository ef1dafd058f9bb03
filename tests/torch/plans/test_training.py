"""Models compiled with the backend train as in PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from opwright_torch.finding import find_graphs
from opwright_torch.plans.forward import Forward
from opwright_torch.plans.one_plan import OnePlan
from opwright_torch.plans.region import Region
from opwright_torch.plans.two_plans import TwoPlans


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend="opwright", **options)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def plan_of(model: Any) -> Forward:
    (region,) = find_graphs(model)
    return plans_of(region)[-1]


def plans_of(region: Region) -> list[Forward]:
    return region.plans


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def assert_same_gradients(model: nn.Module, other: nn.Module) -> None:
    found, expected = gradients(model), gradients(other)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(x), y)


def batch(n: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, 6, generator=generator), torch.arange(n) % 4


def test_a_model_is_trained_in_two_plans() -> None:
    model = network()
    twin = copy.deepcopy(model)
    fast = compiled(model)
    loss_of(fast, *batch()).backward()
    loss_of(twin, *batch()).backward()
    assert_same_gradients(model, twin)
    assert isinstance(plan_of(fast), TwoPlans)


def test_a_function_that_ends_in_a_loss_is_one_plan() -> None:
    model = network()
    twin = copy.deepcopy(model)
    step = compiled(loss_of)
    (step(model, *batch()) * 3).backward()
    (loss_of(twin, *batch()) * 3).backward()
    assert_same_gradients(model, twin)
    assert isinstance(plan_of(step), OnePlan)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=0.05, fused=True),
        lambda p: torch.optim.AdamW(p, lr=0.05, foreach=True),
    ],
    ids=["sgd", "fused adam", "adamw"],
)
@pytest.mark.parametrize("in_one", [True, False], ids=["one plan", "two plans"])
def test_parameters_updated_by_an_optimizer_are_read(
    make: Callable[..., Any], in_one: bool
) -> None:
    model = network()
    twin = copy.deepcopy(model)
    fast = compiled(model)
    step = compiled(loss_of) if in_one else loss_of
    pairs = [(model if in_one else fast, model, step), (twin, twin, loss_of)]
    losses = []
    for called, owner, function in pairs:
        optimizer = make(owner.parameters())
        found = []
        for i in range(4):
            optimizer.zero_grad()
            loss = function(called, *batch(5 + i % 2))
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                found += [loss.item(), loss_of(called, *batch(7)).item()]
        losses.append(found)
    torch.testing.assert_close(*losses)


class Scored(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.body(x)
        return {"loss": functional.cross_entropy(scores, y), "scores": scores}


@pytest.mark.parametrize("use", ["loss", "scores", "both"])
def test_a_loss_and_scores_returned_together_can_both_be_differentiated(use: str) -> None:
    model = Scored()
    twin = copy.deepcopy(model)
    fast = compiled(model)
    for called in (fast, twin):
        out = called(*batch())
        total = 0.0
        if use != "scores":
            total = total + out["loss"] * 2
        if use != "loss":
            total = total + (out["scores"] ** 2).sum()
        total.backward()
    assert_same_gradients(model, twin)
    assert isinstance(plan_of(fast), OnePlan)


@pytest.mark.parametrize("in_one", [True, False], ids=["one plan", "two plans"])
class TestBackward:
    def make(self, in_one: bool) -> tuple[nn.Module, Callable[..., torch.Tensor]]:
        model = network()
        if in_one:
            step = compiled(loss_of)
            return model, lambda *args: step(model, *args)
        fast = compiled(model)
        return model, lambda *args: loss_of(fast, *args)

    def test_a_second_backward_requires_retain_graph(self, in_one: bool) -> None:
        _, run = self.make(in_one)
        loss = run(*batch())
        loss.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()

    def test_a_retained_graph_computes_the_same_gradients_twice(self, in_one: bool) -> None:
        model, run = self.make(in_one)
        loss = run(*batch())
        loss.backward(retain_graph=True)
        once = [grad.clone() for grad in gradients(model)]
        loss.backward(retain_graph=True)
        loss.backward()
        for a, b in zip(gradients(model), once, strict=True):
            torch.testing.assert_close(a, b * 3)

    def test_a_gradient_of_a_gradient_is_refused(self, in_one: bool) -> None:
        model, run = self.make(in_one)
        weight = next(model.parameters())
        (grad,) = torch.autograd.grad(run(*batch()), weight, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable|does not require grad"):
            grad.sum().backward()

    def test_a_gradient_of_only_one_parameter_is_correct(self, in_one: bool) -> None:
        model, run = self.make(in_one)
        weight = list(model.parameters())[2]
        (found,) = torch.autograd.grad(run(*batch()), weight)
        (expected,) = torch.autograd.grad(loss_of(model, *batch()), weight)
        torch.testing.assert_close(found, expected)

    def test_gradients_accumulate(self, in_one: bool) -> None:
        model, run = self.make(in_one)
        twin = copy.deepcopy(model)
        for n in (5, 6, 5):
            run(*batch(n)).backward()
            loss_of(twin, *batch(n)).backward()
        assert_same_gradients(model, twin)

    def test_two_forward_passes_before_a_backward_pass_do_not_mix(self, in_one: bool) -> None:
        model, run = self.make(in_one)
        twin = copy.deepcopy(model)
        first, second = run(*batch(5)), run(*batch(8))
        (first + 2 * second).backward()
        (loss_of(twin, *batch(5)) + 2 * loss_of(twin, *batch(8))).backward()
        assert_same_gradients(model, twin)


def test_a_parameter_changed_before_the_backward_pass_raises_as_in_pytorch() -> None:
    model = network()
    fast = compiled(model)
    out = fast(batch()[0])
    with torch.no_grad():
        model[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_bias_that_no_gradient_reads_can_change_before_the_backward_pass() -> None:
    model = network()
    out = compiled(model)(batch()[0])
    with torch.no_grad():
        model[2].bias.mul_(2)
    out.sum().backward()


def test_changing_an_output_that_the_backward_pass_reads_raises() -> None:
    class Sigmoid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x).sigmoid()

    out = compiled(Sigmoid())(batch()[0])
    with torch.no_grad():
        out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_tangents_can_have_any_strides() -> None:
    model = network()
    twin = copy.deepcopy(model)
    tangent = torch.randn(4, 5).t()
    compiled(model)(batch()[0]).backward(tangent)
    twin(batch()[0]).backward(tangent)
    assert_same_gradients(model, twin)


def test_gradients_flow_to_inputs_that_are_fed() -> None:
    model = network()
    x = batch()[0].requires_grad_()
    (found,) = torch.autograd.grad(compiled(model)(x).square().sum(), x)
    (expected,) = torch.autograd.grad(model(x).square().sum(), x)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_parameter_that_is_a_result_has_a_gradient(copies: int) -> None:
    model = network()
    (weight, bias), x = model[0].parameters(), batch()[0]

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (*(bias.clone() for _ in range(copies)), x @ weight.T)

    def grads(function: Callable[..., Any]) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(sum(r.square().sum() for r in function(x)), (weight, bias))

    torch.testing.assert_close(grads(compiled(run)), grads(run))


def test_an_input_that_the_backward_pass_reads_can_be_overwritten_by_the_graph() -> None:
    def run(x: torch.Tensor, y: torch.Tensor) -> None:
        x.copy_(x * y)

    start, y = torch.randn(3), torch.randn(3, requires_grad=True)
    x = start.clone()
    compiled(run)(x, y)
    (found,) = torch.autograd.grad(x.sum(), y)
    torch.testing.assert_close(found, start)


def test_frozen_parameters_have_no_gradient() -> None:
    model = network()
    model[0].weight.requires_grad_(False)
    compiled(model)(batch()[0]).sum().backward()
    assert model[0].weight.grad is None
    assert model[0].bias.grad is not None


def test_an_unrelated_input_has_no_gradient() -> None:
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.stopped = nn.Linear(6, 4), nn.Linear(6, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x) + self.stopped(x).detach()

    model = Partly()
    compiled(model)(batch()[0]).sum().backward()
    assert model.used.weight.grad is not None
    assert model.stopped.weight.grad is None


class Masked(nn.Module):
    """Changes the result of dropout in place, and uses a parameter only for `new_ones`."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(3, 3), nn.Dropout(0.5)
        self.sized = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.linear(x)
        dropped = self.drop(hidden)
        dropped *= mask
        return dropped + hidden + self.sized.new_ones(4).sum()


def test_in_place_changes_of_dropout_results_match_pytorch() -> None:
    torch.manual_seed(0)
    model = Masked().eval()
    other = copy.deepcopy(model)
    x, mask = torch.randn(2, 3), torch.tensor([[0.0], [1.0]])
    found, expected = compiled(model)(x, mask), other(x, mask)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(gradients(model), gradients(other))
    model.train()
    dropped = compiled(model)(torch.ones(1, 3), mask[:1]) - 4
    torch.testing.assert_close(dropped, other.linear(torch.ones(1, 3)))


def test_a_parameter_used_only_for_new_ones_has_no_gradient() -> None:
    model = Masked().eval()
    x = torch.randn(2, 3, requires_grad=True)
    compiled(model)(x, torch.ones(2, 1)).sum().backward()
    assert model.sized.grad is None
    assert x.grad is not None


class Changing(nn.Module):
    """Changes its weight, or a value computed from it, outside autograd; then uses the result."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.weight = nn.Parameter(torch.tensor([-2.0, 0.5, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight * 1 if self.how.startswith("computed") else self.weight
        if self.how.endswith("detach"):
            weight.detach().clamp_(-1, 1)
        elif self.how.endswith("data"):
            weight.data[1:].clamp_(-1, 1)
        else:
            with torch.no_grad():
                weight.clamp_(-1, 1)
        return x * weight


HOW = [f"{kind} {way}" for kind in ("own", "computed") for way in ("detach", "data", "no_grad")]


@pytest.mark.parametrize("how", HOW)
def test_gradients_ignore_in_place_changes_outside_autograd(how: str) -> None:
    model, other = Changing(how), Changing(how)
    x = torch.randn(2, 3)
    found, expected = compiled(model)(x), other(x)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(gradients(model), gradients(other))
    torch.testing.assert_close(model.weight, other.weight)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_embeddings_with_max_norm_match_the_gradients_and_weights_in_pytorch(kind: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(kind(10, 4, max_norm=0.5), nn.Flatten())
    other = copy.deepcopy(model)
    ids = torch.randint(0, 10, (3, 4))
    for each in (compiled(model), other):
        each(ids).square().sum().backward()
    torch.testing.assert_close(gradients(model), gradients(other))
    torch.testing.assert_close(model[0].weight, other[0].weight)
