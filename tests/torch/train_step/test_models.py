"""Models of all kinds train in one plan, with the same results as in PyTorch."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional
from trainings import batch, batches, check, eager, network, step_of, values

import opwright_torch


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1)


def test_frozen_shared_and_unused_parameters_match_pytorch() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
            self.second.weight = self.first.weight
            self.unused, self.head = nn.Linear(3, 3), nn.Linear(6, 4)
            self.second.bias.requires_grad_(False)
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.second(self.first(x).relu()) * self.scale)

    torch.manual_seed(1)
    model = Odd()
    before = copy.deepcopy(model)
    check(lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True), batches(), model=model)
    assert torch.equal(model.unused.weight, before.unused.weight)
    assert torch.equal(model.second.bias, before.second.bias)


def test_parameters_that_are_frozen_between_steps_keep_their_values() -> None:
    results = []
    for is_ours in (True, False):
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        step = step_of(model, optimizer)
        for i, (x, y) in enumerate(batches()):
            model[0].requires_grad_(i % 4 < 2)
            step(x, y) if is_ours else eager(model, optimizer, [(x, y)])
        results.append(values(model, optimizer))
    torch.testing.assert_close(*results)


def test_batch_normalization_and_a_smaller_last_batch_match_pytorch() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(8, 4),
    )  # fmt: skip
    twin = copy.deepcopy(model)
    data = [batch(i, n) for i, n in enumerate((8, 8, 3, 8, 5, 3))]
    step = step_of(model, sgd(model.parameters()))
    for x, y in data:
        step(x, y)
    eager(twin, sgd(twin.parameters()), data)
    torch.testing.assert_close(model.state_dict(), twin.state_dict())


def test_the_seed_determines_dropout() -> None:
    def trained(seed: int) -> Any:
        model = nn.Sequential(network(), nn.Dropout(0.5))
        step = step_of(model, torch.optim.Adam(model.parameters(), lr=0.01))
        torch.manual_seed(seed)
        return [step(*batch(i)) for i in range(4)], [p.detach() for p in model.parameters()]

    first, second, other = trained(1), trained(1), trained(2)
    assert all(map(torch.equal, first[1], second[1]))
    assert not all(map(torch.equal, first[0], other[0]))
    assert len({float(loss) for loss in first[0]}) == 4


class Output(NamedTuple):
    loss: torch.Tensor
    scores: torch.Tensor


@pytest.mark.parametrize("form", ["tensor", "attribute", "key"])
def test_a_model_can_return_its_own_loss(form: str) -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
            scores = self.body(x)
            loss = functional.cross_entropy(scores, labels)
            forms = {
                "tensor": loss,
                "attribute": Output(loss, scores),
                "key": {"loss": loss, "scores": scores},
            }
            return forms[form]

    model, twin = Whole(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = opwright_torch.train_step(model, None, optimizer)
    for x, y in batches():
        step(x, labels=y)
    eager(twin, torch.optim.SGD(twin.parameters(), lr=0.1), batches())
    torch.testing.assert_close(list(model.body.parameters()), list(twin.parameters()))


def test_a_loss_with_parameters_is_trained_with_the_model() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_scale = nn.Parameter(torch.zeros(()))

        def forward(self, scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(scores * self.log_scale.exp(), y) + self.log_scale

    model, loss = network(), Weighted()
    optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
    step = opwright_torch.train_step(model, loss, optimizer)
    before = float(loss.log_scale.detach())
    step(*batch(0))
    assert float(loss.log_scale.detach()) != before


def test_a_step_over_several_batches_applies_their_mean_gradient() -> None:
    model, twin = network(), network()
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, twin)]
    step = step_of(model, optimizers[0], accumulate=3, clip_norm=0.1)
    data = batches(9)
    first = [p.detach().clone() for p in model.parameters()]
    for i, (x, y) in enumerate(data):
        loss = step(x, y)
        if i < 2:
            assert all(map(torch.equal, model.parameters(), first))
        expected = functional.cross_entropy(twin(x), y)
        (expected / 3).backward()
        torch.testing.assert_close(loss, expected.detach())
        if i % 3 == 2:
            nn.utils.clip_grad_norm_(twin.parameters(), 0.1)
            optimizers[1].step()
            optimizers[1].zero_grad()
    torch.testing.assert_close(values(model, optimizers[0]), values(twin, optimizers[1]))


def test_training_and_evaluation_modes_are_respected() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    step = step_of(model, torch.optim.SGD(model.parameters(), lr=0.1))
    step(*batch(0))
    model.eval()
    before = model[1].running_mean.clone()
    step(*batch(1))
    assert torch.equal(model[1].running_mean, before)
    model.train()
    step(*batch(2))
    assert not torch.equal(model[1].running_mean, before)


def test_a_step_also_trains_within_no_grad() -> None:
    model = network()
    before = model[0].weight.detach().clone()
    step = step_of(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with torch.no_grad():
        loss = step(*batch(0))
    assert not torch.equal(model[0].weight, before)
    assert not loss.requires_grad


def test_many_training_runs_in_one_process_do_not_count_as_recompilations() -> None:
    for i in range(10):
        model = network(i)
        step_of(model, torch.optim.SGD(model.parameters(), lr=0.1))(*batch(0))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.unroll = nn.Unflatten(1, (3, 2))
        self.layers: Any = kind(2, 4, batch_first=True, **options)
        self.head = nn.Linear(4 * (1 + self.layers.bidirectional), 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.layers(self.unroll(x))
        return self.head(out[:, -1])


@pytest.mark.parametrize(
    ("kind", "options"),
    [(nn.LSTM, {"num_layers": 2}), (nn.GRU, {"bidirectional": True}), (nn.RNN, {})],
    ids=["lstm", "gru", "rnn"],
)
def test_recurrent_layers_are_trained(kind: type[nn.Module], options: dict[str, Any]) -> None:
    torch.manual_seed(5)
    model = Recurrent(kind, **options)
    step = check(lambda p: torch.optim.Adam(p, lr=0.01), batches(4), model=model)
    assert not opwright_torch.report(step).calls


def test_dropout_between_recurrent_layers_is_active_only_in_training() -> None:
    model = Recurrent(nn.LSTM, num_layers=2, dropout=0.5)
    step = step_of(model, torch.optim.SGD(model.parameters(), lr=0.0))
    x, y = batch(0)
    assert len({float(step(x, y)) for _ in range(4)}) == 4
    model.eval()
    torch.testing.assert_close(step(x, y), functional.cross_entropy(model(x), y).detach())
