"""Every optimizer, with every option, updates like the PyTorch class of the same name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trainings import batches, check

CASES: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "maximize": True, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.4},
        {"lr": 0.1, "momentum": 0.9, "maximize": True, "fused": True},
        {"lr": 0.1, "foreach": True},
        {"lr": torch.tensor(0.1)},
    ],
    "Adam": [
        {},
        {"lr": 0.01, "weight_decay": 0.1},
        {"lr": 0.01, "amsgrad": True},
        {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1, "maximize": True},
        {"lr": 0.01, "betas": (0.5, 0.9), "eps": 1e-3},
        {"lr": 0.01, "decoupled_weight_decay": True, "weight_decay": 0.1},
        {"lr": 0.01, "betas": (0.0, 0.9)},
        {"lr": 0.01, "fused": True},
        {"lr": torch.tensor(0.01), "foreach": False},
    ],
    "AdamW": [
        {"lr": 0.01},
        {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True},
        {"lr": 0.01, "maximize": True},
        {"lr": 0.01, "weight_decay": 0.0},
    ],
    "RMSprop": [
        {},
        {"momentum": 0.9},
        {"centered": True},
        {"centered": True, "momentum": 0.9, "weight_decay": 0.1, "eps": 1e-4},
        {"alpha": 0.5, "maximize": True},
    ],
    "Adagrad": [
        {},
        {"lr": 0.1, "lr_decay": 0.1},
        {"initial_accumulator_value": 0.5, "weight_decay": 0.1},
        {"lr": 0.1, "eps": 1e-3, "maximize": True, "lr_decay": 0.1},
    ],
}
ROWS = [(name, options) for name, rows in CASES.items() for options in rows]


def _name(row: tuple[str, dict[str, Any]]) -> str:
    return f"{row[0]}-" + "-".join(f"{name}={value}" for name, value in row[1].items())


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_ten_steps_are_as_accurate_as_in_pytorch(row: tuple[str, dict[str, Any]]) -> None:
    name, options = row
    check(lambda p: getattr(torch.optim, name)(p, **options), batches())


SCHEDULES: dict[str, tuple[Any, Any]] = {
    "one cycle of Adam": (
        lambda p: torch.optim.Adam(p, lr=0.01),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=12),
    ),
    "one cycle of AdamW with amsgrad": (
        lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=12),
    ),
    "one cycle of SGD": (
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=12),
    ),
    "cosine": (
        lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    ),
    "cyclic": (
        lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
        lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedulers_do_not_require_a_plan_for_each_step(name: str) -> None:
    make, schedule = SCHEDULES[name]

    def follow(optimizer: torch.optim.Optimizer) -> Any:
        scheduler = schedule(optimizer)
        return lambda _: scheduler.step()

    step = check(make, batches(), follow)
    assert step.trainer.builds <= 2


VARIED = {
    "SGD": ({"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    "Adam": ({"lr": 0.01, "weight_decay": 0.1, "eps": 1e-6}),
    "AdamW": ({"lr": 0.01, "weight_decay": 0.1, "eps": 1e-6}),
    "RMSprop": ({"lr": 0.01, "alpha": 0.9, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "Adagrad": ({"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-4}),
}


@pytest.mark.parametrize("name", VARIED)
def test_all_numeric_options_can_change_in_each_step_with_one_more_plan(name: str) -> None:
    options = VARIED[name]

    def follow(optimizer: torch.optim.Optimizer) -> Any:
        (group,) = optimizer.param_groups

        def after(_: int) -> None:
            for option in options:
                group[option] *= 0.97

        return after

    step = check(lambda p: getattr(torch.optim, name)(p, **options), batches(), follow)
    assert step.trainer.builds == 2


@pytest.mark.parametrize("name", VARIED)
def test_options_can_become_0_and_nonzero_again(name: str) -> None:
    options = [
        o for o in VARIED[name] if o in ("weight_decay", "momentum", "lr_decay", "dampening")
    ]

    def follow(optimizer: torch.optim.Optimizer) -> Any:
        (group,) = optimizer.param_groups

        def after(i: int) -> None:
            for option in options:
                group[option] = [0.2, 0.1, 0.0, 0.0, 0.1][i % 5]

        return after

    def make(parameters: Any) -> torch.optim.Optimizer:
        return getattr(torch.optim, name)(parameters, **VARIED[name])

    if "momentum" in options and name == "RMSprop":
        options.remove("momentum")  # PyTorch creates its buffer only in the first step
    check(make, batches(), follow)


def test_flags_can_change_between_steps() -> None:
    def follow(optimizer: torch.optim.Optimizer) -> Any:
        (group,) = optimizer.param_groups

        def after(i: int) -> None:
            group["maximize"] = i % 4 == 3
            group["weight_decay"] = 0.1 * (i > 5)

        return after

    check(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), batches(), follow)


def test_parameter_groups_have_separate_options() -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        first, *others = parameters
        groups = [
            {"params": [first], "lr": 0.1, "weight_decay": 0.2},
            {"params": others, "betas": (0.8, 0.9), "amsgrad": True},
        ]
        return torch.optim.AdamW(groups, lr=0.01)

    check(make, batches())


@pytest.mark.parametrize("bound", [0.01, 0.2, 100.0])
def test_gradients_are_clipped_by_norm_as_in_pytorch(bound: float) -> None:
    check(
        lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9),
        batches(),
        clip=lambda p: torch.nn.utils.clip_grad_norm_(list(p), bound),
        clip_norm=bound,
    )


def test_gradients_are_clipped_by_value_as_in_pytorch() -> None:
    check(
        lambda p: torch.optim.Adam(p, lr=0.01),
        batches(),
        clip=lambda p: torch.nn.utils.clip_grad_value_(list(p), 0.02),
        clip_value=0.02,
    )
