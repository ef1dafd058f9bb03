"""EarlyStopping(restore_best=True) restores the best epoch, even in resumed training."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeValueError, ProgramError

SCORES = (1, 3, 2, 2, 2)
RNG = np.random.default_rng(5)
X = RNG.normal(size=(16, 4)).astype(np.float32)
Y = RNG.integers(0, 3, (16, 1))


class Score(nn.metrics.Metric):
    """A metric whose values come from a list: the second epoch is the best."""

    def __init__(self, first):
        self.epoch = first - 1  # the base resets it once
        super().__init__("y")

    def reset(self):
        self.epoch += 1

    def update(self, *arrays):
        pass

    def result(self):
        return SCORES[self.epoch - 1]


class Keep(nn.Callback):
    """Records the predictions of the model after each epoch."""

    def __init__(self, model, scores):
        self.predict = lambda: model.predict(scores, x=X)
        self.values = []

    def after_epoch(self, training, record):
        self.values.append(self.predict())


def make():
    model = nn.Model()
    scores = model.fc_layer(model.batch_norm(model.fc_layer("x", 6)), 3)
    loss = model.softmax_with_cross_entropy(scores, "y", reduction="mean")
    model.minimize(loss, nn.optimizer.Adam(0.1))
    return model, scores


def run(epochs, *callbacks, first=0, **options):
    """Train; return the predictions of the model after each epoch, and at the end."""
    model, scores = make()
    keep = Keep(model, scores)
    nn.train(
        model,
        (X, Y),
        epochs,
        batch_size=8,
        metrics={"score": Score(first)},
        callbacks=[keep, *callbacks],
        progress=False,
        **options,
    )
    return keep.values, keep.predict()


@pytest.mark.parametrize("patience", [2, 9])
def test_the_final_parameters_are_the_parameters_of_the_best_epoch(patience):
    values, last = run(5, nn.EarlyStopping("score", patience=patience, restore_best=True))
    assert len(values) == (4 if patience == 2 else 5)
    np.testing.assert_array_equal(last, values[1])
    assert not np.array_equal(last, values[-1])


def test_the_parameters_of_the_last_epoch_are_kept_unless_restore_best_is_set():
    values, last = run(5, nn.EarlyStopping("score", patience=2))
    np.testing.assert_array_equal(last, values[-1])


@pytest.mark.parametrize("n_first", [1, 2, 3])
def test_resumed_training_also_ends_with_the_best_epoch(tmp_path, n_first):
    def part(epochs, first):
        stop = nn.EarlyStopping("score", patience=2, restore_best=True)
        saver = nn.Checkpoint(tmp_path, best="score")
        return run(epochs, stop, saver, first=first, resume="latest")

    values, wanted = run(5, nn.EarlyStopping("score", patience=2, restore_best=True))
    part(n_first, 0)
    later, last = part(5, n_first)
    np.testing.assert_array_equal(wanted, values[1])
    np.testing.assert_array_equal(last, wanted)
    np.testing.assert_array_equal(
        later[-1], values[-1]
    )  # continued from the last epoch, not the best
    np.testing.assert_array_equal(part(5, 5)[1], wanted)  # training is complete, so no epoch runs


def test_a_checkpoint_without_the_best_epoch_is_refused(tmp_path):
    stop = nn.EarlyStopping("score", restore_best=True)
    for options in ({}, {"best": "loss"}, {"best": "score", "mode": "min"}):
        with pytest.raises(AttributeValueError, match="write Checkpoint.folder, best='score'"):
            run(1, stop, nn.Checkpoint(tmp_path, **options))


def test_a_step_without_a_model_is_refused():
    with pytest.raises(ProgramError, match="restore_best needs the parameters of a Model, got a"):
        nn.train(lambda x, y: 0.0, (X, Y), 1, callbacks=nn.EarlyStopping(restore_best=True))


def test_ctrl_c_does_not_restore_the_best_epoch():
    class Interrupt(nn.Callback):
        def after_epoch(self, training, record):
            if record["epoch"] == 4:
                os.kill(os.getpid(), signal.SIGINT)

    values, last = run(5, nn.EarlyStopping("score", patience=9, restore_best=True), Interrupt())
    np.testing.assert_array_equal(last, values[3])
