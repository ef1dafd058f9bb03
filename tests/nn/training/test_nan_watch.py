"""NanWatch stops training at the first NaN and names its origin; it changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeValueError, OpwrightError, ProgramError


def diverging(small):
    """Return a model whose loss overflows after a few steps."""
    return small.make(nn.optimizer.SGD(1e18), drop=0.3)[0]


@pytest.mark.parametrize("every_steps", [1, 4, 50])
def test_the_error_names_the_first_non_finite_step_and_its_operator(small, train, every_steps):
    steps = set()
    for _ in range(2):
        with pytest.raises(nn.NonFiniteError, match="^train: the loss and all parameters") as info:
            train(diverging(small), small.data, 9, batch_size=4, callbacks=nn.NanWatch(every_steps))
        error = info.value
        steps.add(error.step)
        assert isinstance(error, OpwrightError)
        assert isinstance(error, FloatingPointError)
        place = f"operator {error.found.place}, {error.found.op_type}: "
        assert f"in step {error.step}: {place}" in str(error)
    assert len(steps) == 1
    assert steps.pop() > 1


def test_a_non_finite_parameter_is_reported_like_a_loss(small, train):
    model = small.make(nn.optimizer.SGD(1e36), drop=0.0)[0]
    data = (small.x * np.float32(1e5), small.data[1])
    with pytest.raises(nn.NonFiniteError) as info:
        train(model, data, 1, batch_size=22, callbacks=nn.NanWatch())
    assert info.value.step == 1
    assert info.value.found.op_type == "sgd"
    assert info.value.found.variable.endswith("_param")


def test_the_callback_leaves_training_bitwise_unchanged(small, train):
    plain, watched = small.make()[0], small.make()[0]
    train(plain, small.data, 3, batch_size=4)
    train(watched, small.data, 3, batch_size=4, callbacks=nn.NanWatch(2))
    assert small.variables(plain) == small.variables(watched)


def test_a_checkpoint_at_the_same_steps_never_saves_non_finite_values(small, train, tmp_path):
    callbacks = [nn.Checkpoint(tmp_path, every_steps=1), nn.NanWatch(1)]
    with pytest.raises(nn.NonFiniteError):
        train(diverging(small), small.data, 9, batch_size=4, callbacks=callbacks)
    model = diverging(small)
    model.load_parameter(tmp_path)
    assert all(np.isfinite(model.scope.var(p.name).numpy()).all() for p in model.parameters)


def test_a_step_that_cannot_be_repeated_is_refused(small, train):
    with pytest.raises(ProgramError, match="NanWatch: .* got a step; call nn.find_nan"):
        train(lambda x, y: [np.float32(1)], small.data, 1, callbacks=nn.NanWatch())
    with pytest.raises(AttributeValueError, match="every_steps"):
        nn.NanWatch(0)


def test_a_callback_can_replace_the_step(small, train):
    class Count(nn.Callback):
        n = 0

        def wrap_step(self, training, step):
            def counted(**feeds):
                self.n += 1
                return step(**feeds)

            return counted

    count, model = Count(), small.make()[0]
    history = train(model, small.data, 2, batch_size=4, callbacks=count)
    assert count.n == history["steps"][-1] == 12
