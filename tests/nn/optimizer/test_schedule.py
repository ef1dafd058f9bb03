"""Schedules: each step computes the rate by a formula from the step count in the scope."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError
from opwright_nn import schedule

N = 24


def half_cosine(first, last, share):
    return last + (first - last) * (1 + math.cos(math.pi * min(max(share, 0.0), 1.0))) / 2


def stairs(t):
    return 0.1 * 0.5 ** (t // 3)


def warm_cosine(t):
    return 0.1 * (t + 1) / 4 if t < 4 else half_cosine(0.1, 0.01, (t - 4) / 16)


def cycle(t):
    return half_cosine(0.04, 1.0, t / 6) if t < 6 else half_cosine(1.0, 4e-6, (t - 6) / 14)


CASES = {
    "step": (lambda: schedule.step(0.1, size=3, gamma=0.5), stairs),
    "cosine": (lambda: schedule.cosine(0.1, 20, warmup=4, final=0.01), warm_cosine),
    "no warm-up": (lambda: schedule.cosine(0.1, 20), lambda t: half_cosine(0.1, 0.0, t / 20)),
    "warm-up": (lambda: schedule.warmup(0.1, 5), lambda t: 0.1 * min(t + 1, 5) / 5),
    "warm-up of steps": (
        lambda: schedule.warmup(schedule.step(0.1, 3, 0.5), 2),
        lambda t: 0.05 * (t + 1) if t < 2 else stairs(t - 2),
    ),
    "one cycle": (lambda: schedule.one_cycle(1.0, 20), cycle),
    "own": (
        lambda: schedule.Schedule(lambda t: 0.1 / (1 + 0.01 * t)),
        lambda t: 0.1 / (1 + 0.01 * t),
    ),
}


def make_model(rate):
    model = nn.Model()
    model.backward(model.mean(model.fc_layer("x", size=2)))
    model.optimize(nn.optimizer.Momentum(rate))
    model.fill("x", np.ones((2, 3), np.float32))
    return model


def current_rate(model):
    return float(model.scope.var(model.optimizer.learning_rate.name).numpy()[0])


@pytest.mark.parametrize("name", CASES)
def test_each_step_uses_the_rate_of_the_formula_without_a_new_plan(name):
    make, formula = CASES[name]
    rates = make()
    model = make_model(rates)
    for t in range(N):
        model.run()
        np.testing.assert_allclose(current_rate(model), formula(t), rtol=2e-6, atol=1e-8)
        np.testing.assert_allclose(rates.rate(t), formula(t), rtol=2e-6, atol=1e-8)
    assert len(model._step.plans) == 1


def test_updates_use_the_rate_of_the_schedule():
    model = make_model(schedule.step(0.5, size=1, gamma=0.5))
    _, bias = model.parameters
    model.initialize_parameters(x=np.ones((2, 3), np.float32))
    before = model.scope.var(bias.name).numpy()
    model.run()
    after = model.scope.var(bias.name).numpy()
    np.testing.assert_allclose(before - after, 0.5 * 0.5, rtol=1e-6)  # the gradient is 1/2


def test_the_rate_is_set_before_the_first_step():
    model = make_model(schedule.cosine(0.1, 20, warmup=4))
    model.initialize_parameters(x=np.ones((2, 3), np.float32))
    assert current_rate(model) == pytest.approx(0.025)


def test_resumed_training_continues_the_schedule(tmp_path):
    model = make_model(schedule.cosine(0.1, 20))
    for _ in range(5):
        model.run()
    model.save(tmp_path / "model")
    again = make_model(schedule.cosine(0.1, 20))
    again.resume(tmp_path / "model")
    model.run()
    again.run()
    assert current_rate(again) == current_rate(model) < 0.09


def test_a_model_with_a_schedule_can_be_copied():
    model = make_model(schedule.warmup(schedule.one_cycle(1.0, 20), 3))
    model.run()
    twin = copy.deepcopy(model)
    twin.fill("x", np.ones((2, 3), np.float32))
    model.run()
    twin.run()
    assert current_rate(twin) == current_rate(model)


def test_the_rate_of_a_schedule_cannot_be_set():
    model = make_model(schedule.step(0.1, 3))
    model.run()
    with pytest.raises(ProgramError, match="Momentum: the learning rate must be a number to be se"):
        model.set_learning_rate(0.1)


@pytest.mark.parametrize(
    ("make", "error", "rule"),
    [
        (lambda: schedule.step(0.1, 0), AttributeValueError, "schedule.step: size must be"),
        (lambda: schedule.step(0.1, 1, gamma=0), AttributeValueError, "step: gamma must be"),
        (lambda: schedule.cosine(0.1, 4, warmup=4), AttributeValueError, "cosine: warmup must be"),
        (lambda: schedule.cosine(-1.0, 4), AttributeValueError, "cosine: rate must be"),
        (lambda: schedule.cosine(0.1, 4, warmpu=1), AttributeTypeError, "did you mean 'warmup'"),
        (lambda: schedule.one_cycle(0.1, 1), AttributeValueError, "one_cycle: steps must be"),
        (lambda: schedule.one_cycle(0.1, 9, rise=1.0), AttributeValueError, "cycle: rise must be"),
        (lambda: schedule.warmup("a", 2), AttributeTypeError, "warmup: schedule must be"),
        (lambda: schedule.Schedule(3), AttributeTypeError, "Schedule: curve must be"),
        (lambda: schedule.cosine(math.nan, 4), AttributeValueError, "cosine: rate must be"),
        (lambda: schedule.cosine(1e39, 4), AttributeValueError, r"rate must be .*e\+38\], got 1e"),
        (lambda: schedule.warmup(math.inf, 4), AttributeValueError, "warmup: schedule must be"),
        (lambda: nn.optimizer.SGD(1e39), AttributeValueError, r"SGD: learning_rate .*e\+38\], got"),
        (
            lambda: schedule.step(0.1, 10**400),
            AttributeValueError,
            r"size must be an int in \[1",
        ),
        (lambda: schedule.cosine(0.1, 10**400), AttributeValueError, r"an int in \[1, 9\d+\], got"),
        (lambda: schedule.warmup(0.1, 10**400), AttributeValueError, r"an int in \[1, 9\d+\], got"),
        (
            lambda: schedule.one_cycle(1, 10**400),
            AttributeValueError,
            r"an int in \[2, 9\d+\]",
        ),
        (lambda: schedule.cosine(1, 4).rate(-1), AttributeValueError, "step must be .* got -1"),
        (lambda: schedule.cosine(1, 4).rate(1.5), AttributeTypeError, "step must be an int"),
        (lambda: schedule.cosine(1, 4).rate(10**60), AttributeValueError, "step must be an int in"),
        (
            lambda: nn.optimizer.SGD(schedule.Schedule(lambda t: t - 1.0)),
            AttributeValueError,
            "curve must return one finite rate of at least 0, got .* step 0",
        ),
        (
            lambda: make_model(schedule.Schedule(lambda t: ow.ops.reshape(t + 0.0, shape=[1]))),
            None,
            None,
        ),
        (
            lambda: make_model(schedule.Schedule(lambda t: np.ones(1, np.float32))),
            ProgramError,
            r"curve must map a Variable to a float32 \[1\] Variable, got array",
        ),
    ],
)
def test_an_invalid_schedule_is_refused(make, error, rule):
    if error is None:
        make()
        return
    with pytest.raises(error, match=rule):
        make()


@pytest.mark.parametrize(
    "value", ["a", None, [None], [1j], [[1], [1, 2]], [1e200], [math.nan], [-1.0], [1.0, 2.0], 1.0]
)
def test_a_curve_that_does_not_return_a_rate_is_refused(value):
    with pytest.raises(AttributeValueError, match="one finite rate of at least 0, got .* step 3;"):
        schedule.Schedule(lambda t: value).rate(3)


@pytest.mark.parametrize("step", [2**24 + 1, 2**40, 2**63 - 1])
def test_schedules_return_a_rate_for_steps_beyond_the_range_of_float32(step):
    assert schedule.cosine(0.5, 10, final=0.25).rate(step) == 0.25
    assert schedule.warmup(0.5, 10).rate(step) == 0.5
    assert schedule.one_cycle(0.5, 10, final=0.5).rate(step) == 0.25
    assert schedule.step(0.5, 10).rate(step) == 0
