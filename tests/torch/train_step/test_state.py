"""A training step reads and writes the states of the model, the optimizer and the scaler."""

from __future__ import annotations

import copy
import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import endless_training
import pytest
import torch
from torch import nn
from torch.nn import functional
from trainings import assert_as_exact, batch, batches, eager, network, step_of, values

import opwright_torch

MAKERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "adam": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
}


def saved(*parts: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save([part.state_dict() for part in parts], file)
    file.seek(0)
    return file


def load(file: io.BytesIO, *parts: Any) -> None:
    for part, state in zip(parts, torch.load(file), strict=True):
        part.load_state_dict(state)


@pytest.mark.parametrize("name", MAKERS)
def test_a_resumed_training_run_is_bitwise_identical(name: str) -> None:
    model = network()
    optimizer = MAKERS[name](model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step = step_of(model, optimizer)
    for x, y in batches()[:4]:
        step(x, y)
        scheduler.step()
    file = saved(model, optimizer, scheduler)
    for x, y in batches()[4:]:
        step(x, y)
        scheduler.step()

    other = network(seed=9)
    resumed = MAKERS[name](other.parameters())
    schedule = torch.optim.lr_scheduler.ExponentialLR(resumed, 0.9)
    load(file, other, resumed, schedule)
    again = step_of(other, resumed)
    for x, y in batches()[4:]:
        again(x, y)
        schedule.step()
    for a, b in zip(values(model, optimizer), values(other, resumed), strict=True):
        assert torch.equal(a, b)


def test_a_training_run_resumed_after_a_kill_is_bitwise_identical(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    whole.mkdir()
    command = [sys.executable, endless_training.__file__, str(killed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 3:
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    done, *_ = torch.load(killed / endless_training.CHECKPOINT)
    assert done >= 3
    resumed = endless_training.train(killed, done + 3)
    for a, b in zip(endless_training.train(whole, done + 3), resumed, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", MAKERS)
def test_steps_in_plans_and_in_pytorch_can_alternate(name: str) -> None:
    data = batches()
    results = []
    for dtype in (torch.float32, torch.float64):
        twin = network().to(dtype)
        optimizer = MAKERS[name](twin.parameters())
        eager(twin, optimizer, data)
        results.append(values(twin, optimizer))
    model = network()
    optimizer = MAKERS[name](model.parameters())
    step = step_of(model, optimizer)
    for i, (x, y) in enumerate(data):
        if i % 3 == 2:
            eager(model, optimizer, [(x, y)])
        else:
            step(x, y)
    assert_as_exact(values(model, optimizer), *results)


def test_states_loaded_between_steps_are_used() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = step_of(model, optimizer)
    step(*batch(0))
    file = saved(model, optimizer)
    for i in range(1, 4):
        step(*batch(i))
    expected = values(model, optimizer)
    expected = [value.clone() for value in expected]
    load(file, model, optimizer)
    for i in range(1, 4):
        step(*batch(i))
    for a, b in zip(values(model, optimizer), expected, strict=True):
        assert torch.equal(a, b)
    assert step.trainer.builds == 1


def test_states_changed_in_place_or_cleared_are_used() -> None:
    model, twin = network(), network()
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (model, twin)]
    step = step_of(model, optimizers[0])
    for i in range(6):
        step(*batch(i))
        eager(twin, optimizers[1], [batch(i)])
        for optimizer in optimizers:
            for state in optimizer.state.values():
                state["exp_avg"].mul_(0.5)
                if i == 2:
                    state["step"].zero_()
            if i == 3:
                optimizer.state.clear()
    torch.testing.assert_close(
        values(model, optimizers[0]), values(twin, optimizers[1]), atol=1e-6, rtol=1e-4
    )


def test_step_counts_are_separate_tensors() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    step_of(model, optimizer)(*batch(0))
    first, second, *_ = optimizer.state.values()
    first["step"] += 1
    assert (float(first["step"]), float(second["step"])) == (2.0, 1.0)
    assert first["step"].shape == ()


def test_a_parameter_group_can_be_added_between_steps() -> None:
    results = []
    for is_ours in (True, False):
        torch.manual_seed(4)
        model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
        model[0].requires_grad_(False)
        optimizer = torch.optim.Adam(model[1].parameters(), lr=0.01)
        step = step_of(model, optimizer)
        for i, (x, y) in enumerate(batches()):
            if i == 4:
                model[0].requires_grad_(True)
                optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.1})
            if is_ours:
                step(x, y)
            else:
                eager(model, optimizer, [(x, y)])
        results.append(values(model, optimizer))
    torch.testing.assert_close(*results)


def test_another_plan_of_the_model_reads_the_updates_of_a_step() -> None:
    model = network()
    fast = torch.compile(model, backend="opwright")
    step = step_of(model, torch.optim.SGD(model.parameters(), lr=0.5))
    x, y = batch(1)
    with torch.no_grad():
        before = fast(x)
        step(x, y)
        assert not torch.allclose(fast(x), before)
        torch.testing.assert_close(fast(x), model(x))


def test_parameters_with_replaced_memory_are_trained_in_the_new_memory() -> None:
    model, twin = network(), network()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in (model, twin)]
    step = step_of(model, optimizers[0])
    for i in range(4):
        for m in (model, twin):
            vector = nn.utils.parameters_to_vector(m.parameters()) * 0.9
            nn.utils.vector_to_parameters(vector, m.parameters())
        step(*batch(i))
        eager(twin, optimizers[1], [batch(i)])
    torch.testing.assert_close(values(model, optimizers[0]), values(twin, optimizers[1]))


def test_a_step_leaves_grad_attributes_unchanged() -> None:
    model = network()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    step = step_of(model, torch.optim.SGD(model.parameters(), lr=0.5))
    step(*batch(1))
    assert torch.equal(model[0].weight.grad, torch.ones_like(model[0].weight))
    assert model[0].bias.grad is None


def test_a_copied_optimizer_has_its_own_state() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    step = step_of(model, optimizer)
    step(*batch(0))
    twin = copy.deepcopy(optimizer)
    step(*batch(1))
    steps = [float(next(iter(o.state.values()))["step"]) for o in (optimizer, twin)]
    assert steps == [2.0, 1.0]


def test_parameters_in_16_bits_and_64_bits_are_updated() -> None:
    for dtype, tolerance in ((torch.bfloat16, 0.02), (torch.float64, 1e-9)):
        model = network().to(dtype)
        twin = copy.deepcopy(model)
        optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, twin)]
        step = step_of(model, optimizers[0])
        for x, y in batches():
            step(x.to(dtype), y)
            eager(twin, optimizers[1], [(x, y)])
        torch.testing.assert_close(
            values(model, optimizers[0]),
            values(twin, optimizers[1]),
            atol=tolerance,
            rtol=tolerance,
        )


def test_a_report_does_not_change_a_training_run() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    step = opwright_torch.train_step(model, functional.cross_entropy, optimizer)
    step(*batch(0))
    before = [value.clone() for value in values(model, optimizer)]
    report = opwright_torch.report(step)
    assert report.plans == ("training step",)
    for a, b in zip(values(model, optimizer), before, strict=True):
        assert torch.equal(a, b)
