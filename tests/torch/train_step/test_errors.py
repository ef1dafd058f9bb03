"""A training step refuses unsupported features by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from trainings import batch, network, step_of

import opwright_torch
from opwright.errors import SettingError, ShapeError


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"accumulate": 0}, r"accumulate must be an integer of at least 1, got 0"),
        ({"accumulate": 1.5}, r"accumulate must be an integer of at least 1, got 1\.5"),
        ({"clip_norm": -1.0}, r"clip_norm must be a number above 0, got -1\.0"),
        ({"clip_value": "1"}, r"clip_value must be a number above 0, got '1'"),
        ({"clip_norm": float("nan")}, r"clip_norm must be a number above 0, got nan"),
        ({"scaler": 2.0}, r"scaler must be a torch\.amp\.GradScaler, got float"),
        ({"data_parallel": 3}, r"data_parallel must be a bool or the name of a group .* got 3"),
        ({"options": {"pases": []}}, r"options must be among passes, .* got 'pases'.*passes"),
    ],
)
def test_the_error_names_an_argument_out_of_range(how: dict[str, Any], text: str) -> None:
    model = network()
    with pytest.raises(SettingError, match=text):
        step_of(model, sgd(model), **how)


def test_the_error_for_a_mistyped_argument_suggests_the_nearest_name() -> None:
    model = network()
    with pytest.raises(TypeError, match="clip_norm"):
        step_of(model, sgd(model), clip_nrm=1.0)


def test_an_invalid_module_or_loss_is_refused() -> None:
    model = network()
    with pytest.raises(SettingError, match=r"model must be a torch\.nn\.Module, got function"):
        step_of(lambda x: x, sgd(model))
    with pytest.raises(SettingError, match="loss must be callable or None, got str"):
        opwright_torch.train_step(model, "mse", sgd(model))
    with pytest.raises(SettingError, match="model must not be wrapped, got DataParallel"):
        step_of(nn.DataParallel(model), sgd(model))


def test_the_error_names_an_optimizer_without_a_rule() -> None:
    model = network()

    class Mine(torch.optim.Adam):
        pass

    known = r"one of torch\.optim's SGD, Adam, AdamW, RMSprop, Adagrad, got "
    with pytest.raises(SettingError, match=known + r"torch\.optim\.nadam\.NAdam"):
        step_of(model, torch.optim.NAdam(model.parameters()))
    with pytest.raises(SettingError, match=known + r".*Mine"):
        step_of(model, Mine(model.parameters()))
    with pytest.raises(SettingError, match=known + r"builtins\.float"):
        step_of(model, 0.1)


@pytest.mark.parametrize("option", ["capturable", "differentiable"])
def test_options_without_a_meaning_in_a_plan_are_refused(option: str) -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), **{option: True})
    with pytest.raises(SettingError, match=f"{option} must be False, got {option}=True"):
        step_of(model, optimizer)


def test_options_are_also_checked_after_a_change() -> None:
    model = network()
    optimizer = sgd(model)
    step = step_of(model, optimizer)
    step(*batch(0))
    optimizer.param_groups[0]["differentiable"] = True
    with pytest.raises(SettingError, match="differentiable must be False"):
        step(*batch(0))
    optimizer.param_groups[0]["differentiable"] = False
    step(*batch(0))


def test_hooks_are_refused_even_if_they_are_added_later() -> None:
    model = network()
    optimizer = sgd(model)
    step = step_of(model, optimizer)
    step(*batch(0))
    handle = optimizer.register_step_post_hook(lambda *_: None)
    with pytest.raises(SettingError, match="optimizer must not have step hooks"):
        step(*batch(0))
    handle.remove()
    handle = model[0].weight.register_hook(lambda grad: grad * 2)
    with pytest.raises(
        SettingError, match=r"parameters must not have hooks, got a hook on \[8, 6\]"
    ):
        step(*batch(0))
    handle.remove()
    handle = model[0].weight.register_post_accumulate_grad_hook(lambda _: None)
    with pytest.raises(SettingError, match="parameters must not have hooks"):
        step(*batch(0))
    handle.remove()
    handle = model[2].register_full_backward_hook(lambda *_: None)
    with pytest.raises(
        SettingError, match="modules must not have backward hooks, got a hook on '2'"
    ):
        step(*batch(0))
    handle.remove()
    step(*batch(0))


def test_sparse_gradients_are_refused() -> None:
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Flatten(), nn.Linear(8, 4))
    step = step_of(model, sgd(model))
    with pytest.raises(SettingError, match=r"gradients must be dense, got aten\.embedding"):
        step(torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))


def test_non_contiguous_parameters_are_refused() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten())
    model.to(memory_format=torch.channels_last)
    step = step_of(model, sgd(model))
    with pytest.raises(SettingError, match=r"parameters must be contiguous, got \[3, 2, 2, 2\]"):
        step(torch.zeros(2, 2, 3, 3), torch.zeros(2, dtype=torch.int64))
    for parameter in model.parameters():
        parameter.data = parameter.data.contiguous()
    step(torch.zeros(2, 2, 3, 3), torch.zeros(2, dtype=torch.int64))


def test_a_loss_that_does_not_train_any_parameter_is_refused() -> None:
    model = network()
    optimizer = sgd(model)
    model.requires_grad_(False)
    step = step_of(model, optimizer)
    with pytest.raises(SettingError, match="loss must be one number that depends on a parameter"):
        step(*batch(0))
    model.requires_grad_(True)
    several = opwright_torch.train_step(
        model, lambda s, y: functional.cross_entropy(s, y, reduction="none"), optimizer
    )
    with pytest.raises(SettingError, match="loss must be one number"):
        several(*batch(0))
    other = step_of(model, sgd(network()))
    with pytest.raises(SettingError, match="depend on a parameter of the optimizer"):
        other(*batch(0))


def test_the_error_for_a_model_without_a_loss_gives_a_remedy() -> None:
    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor) -> Any:
            return [self.body(x)]

    model = Scores()
    step = opwright_torch.train_step(model, None, sgd(model))
    with pytest.raises(SettingError, match="with loss=None as a tensor, or"):
        step(batch(0)[0])


def test_a_step_within_inference_mode_is_refused() -> None:
    model = network()
    step = step_of(model, sgd(model))
    text = r"a step must not run within torch\.inference_mode\(\)"
    with torch.inference_mode(), pytest.raises(SettingError, match=text):
        step(*batch(0))
    step(*batch(0))


def test_the_error_names_a_graph_break() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return self.body(x)

    model = Broken()
    message = r"model and loss must be one graph, got a graph break.*\n.*in forward\n.*graph_break"
    with pytest.raises(SettingError, match=message):
        step_of(model, sgd(model))(*batch(0))


def test_the_error_names_a_part_that_pytorch_cannot_capture() -> None:
    model = nn.Sequential(network(), nn.BatchNorm1d(4, momentum=None))
    with pytest.raises(SettingError, match="must be one graph, got a graph break: .*guard on"):
        step_of(model, sgd(model))(*batch(0))


def test_the_error_names_a_state_of_a_different_model() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    step = step_of(model, optimizer)
    step(*batch(0))
    optimizer.state[model[0].weight]["exp_avg"] = torch.zeros(3)
    with pytest.raises(
        SettingError, match=r"state 'exp_avg' of parameter 0 must be .* got .*\[3\]"
    ):
        step(*batch(0))


def test_a_batch_of_wrong_shapes_raises_as_in_pytorch_and_the_next_step_works() -> None:
    model = network()
    step = step_of(model, sgd(model))
    step(*batch(0))
    with pytest.raises((RuntimeError, ShapeError), match="shape|size"):
        step(torch.zeros(5, 7), torch.zeros(5, dtype=torch.int64))
    step(*batch(0))


def test_the_error_for_a_step_without_its_target_shows_the_call() -> None:
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = opwright_torch.train_step(model, torch.nn.functional.cross_entropy, optimizer)
    with pytest.raises(SettingError, match=r"got 1 by position and \[\] by name; call step\(\*inp"):
        step(torch.zeros(2, 4))
