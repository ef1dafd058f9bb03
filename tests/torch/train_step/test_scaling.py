"""Autocast and loss scaling work as in PyTorch, including skipped steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from trainings import batch, batches, network, step_of, values

MAKERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, nesterov=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
}


def data_with_overflows() -> list[Any]:
    data = batches()
    for i in (3, 7):
        data[i][0][0, 0] = float("inf")
    return data


def scaler_of(**options: Any) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2, **options)


def eager_scaled(
    model: nn.Module, optimizer: Any, scaler: torch.amp.GradScaler, x: Any, y: Any, bound: Any
) -> None:
    optimizer.zero_grad()
    scaler.scale(functional.cross_entropy(model(x), y)).backward()
    scaler.unscale_(optimizer)
    if bound is not None:
        nn.utils.clip_grad_norm_(model.parameters(), bound)
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("bound", [None, 0.1])
@pytest.mark.parametrize("name", MAKERS)
def test_steps_with_infinite_gradients_are_skipped_as_in_pytorch(name: str, bound: Any) -> None:
    model, twin = network(), network()
    optimizers = [MAKERS[name](m.parameters()) for m in (model, twin)]
    scalers = scaler_of(growth_factor=4.0), scaler_of(growth_factor=4.0)
    step = step_of(model, optimizers[0], scaler=scalers[0], clip_norm=bound)
    for x, y in data_with_overflows():
        step(x, y)
        eager_scaled(twin, optimizers[1], scalers[1], x, y, bound)
        assert scalers[0].state_dict() == scalers[1].state_dict()
    torch.testing.assert_close(
        values(model, optimizers[0]), values(twin, optimizers[1]), atol=1e-5, rtol=1e-4
    )
    assert scalers[0].get_scale() != 1024.0


def test_an_overflow_in_one_of_several_batches_skips_their_update() -> None:
    model, twin = network(), network()
    optimizers = [MAKERS["adamw"](m.parameters()) for m in (model, twin)]
    scalers = scaler_of(), scaler_of()
    step = step_of(model, optimizers[0], scaler=scalers[0], accumulate=2)
    for i, (x, y) in enumerate(data_with_overflows()):
        step(x, y)
        scalers[1].scale(functional.cross_entropy(twin(x), y) / 2).backward()
        if i % 2:
            scalers[1].step(optimizers[1])
            scalers[1].update()
            optimizers[1].zero_grad()
    assert scalers[0].state_dict() == scalers[1].state_dict()
    torch.testing.assert_close(
        values(model, optimizers[0]), values(twin, optimizers[1]), atol=1e-5, rtol=1e-4
    )


def test_a_loaded_scaler_continues() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = scaler_of()
    step = step_of(model, optimizer, scaler=scaler)
    step(*batch(0))
    state = scaler.state_dict()
    step(*batch(1))
    step(*batch(2))
    after = scaler.state_dict()
    scaler.load_state_dict(state)
    step(*batch(1))
    step(*batch(2))
    assert scaler.state_dict() == after
    fresh = torch.amp.GradScaler("cpu")
    fresh.load_state_dict(state)
    again = step_of(model, optimizer, scaler=fresh)
    again(*batch(1))
    again(*batch(2))
    assert fresh.state_dict() == after


def test_a_disabled_scaler_does_not_scale() -> None:
    model = network()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    step = step_of(model, torch.optim.SGD(model.parameters(), lr=0.1), scaler=scaler)
    step(*batch(0))
    assert scaler.state_dict() == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_around_a_step_casts_in_the_plan(dtype: torch.dtype) -> None:
    model, twin = network(), network()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    scalers = scaler_of(), scaler_of()
    step = step_of(model, optimizers[0], scaler=scalers[0])
    losses = []
    for x, y in batches():
        with torch.autocast("cpu", dtype=dtype):
            losses.append(float(step(x, y)))
        optimizers[1].zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = functional.cross_entropy(twin(x), y)
        scalers[1].scale(loss).backward()
        scalers[1].step(optimizers[1])
        scalers[1].update()
    torch.testing.assert_close(
        list(model.parameters()), list(twin.parameters()), atol=0.02, rtol=0.02
    )
    exact = network()
    with torch.no_grad():
        whole = float(functional.cross_entropy(exact(batch(0)[0]), batch(0)[1]))
    assert losses[0] != whole
    assert losses[0] == pytest.approx(whole, abs=0.05)
