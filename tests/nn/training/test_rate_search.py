"""find_learning_rate: finds the range of decreasing loss, and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeValueError, ProgramError


def test_the_suggested_rate_trains_and_ten_times_the_last_rate_diverges(small):
    x = np.random.default_rng(0).normal(size=(256, 5)).astype(np.float32)
    y = (x @ np.ones((5, 1), np.float32)).astype(np.float32)

    def make(rate):
        model = nn.Model()
        loss = model.mse(model.fc_layer("x", 1), "y", reduction="mean")
        model.minimize(loss, nn.optimizer.SGD(rate))
        return model

    search = nn.find_learning_rate(make(1.0), (x, y), steps=60)
    assert search.rates[0] == 1e-6
    assert len(search.rates) == len(search.losses) < 60  # it has diverged
    good = nn.train(make(search.best), (x, y), 5, progress=False)["loss"]
    assert good[-1] < 0.5 * good[0]
    with np.errstate(all="ignore"):
        bad = nn.train(make(10 * search.rates[-1]), (x, y), 5, progress=False)["loss"]
    assert not bad[-1] < bad[0]


def test_the_searched_model_does_not_change(small):
    model = small.make()[0]
    nn.train(model, small.data, 1, progress=False)
    before = small.variables(model)
    nn.find_learning_rate(model, small.data, batch_size=8, steps=10, highest=0.1)
    assert small.variables(model) == before


def test_data_with_another_dtype_is_converted_as_in_training(small):
    model = nn.Model(cast=True)
    model.minimize(model.mse(model.fc_layer("x", 1), "y", reduction="mean"), nn.optimizer.SGD(0.1))
    x = small.x.astype(np.float64)
    assert nn.find_learning_rate(model, (x, x[:, :1]), steps=10).losses


def test_a_model_without_a_fixed_learning_rate_is_refused(small):
    schedule = nn.optimizer.SGD(nn.schedule.cosine(0.1, steps=9))
    with pytest.raises(ProgramError, match="find_learning_rate: .* got one with a schedule; call"):
        nn.find_learning_rate(small.make(schedule)[0], small.data)
    with pytest.raises(ProgramError, match="got none; call model.minimize"):
        nn.find_learning_rate(nn.Model(), small.data)


def test_a_nan_loss_is_reported(small):
    x = np.full((8, 5), np.nan, np.float32)
    with pytest.raises(AttributeValueError, match="must be a number at the rate 1e-06, got nan"):
        nn.find_learning_rate(small.make()[0], (x, small.y[:8]))
