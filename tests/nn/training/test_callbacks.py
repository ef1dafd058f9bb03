"""Callbacks: when they are called, when they stop training, and how they change the rate."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError


class Scripted(nn.metrics.Metric):
    """A metric whose values come from a list."""

    def __init__(self, values):
        super().__init__("y")
        self.values = iter(values)

    def reset(self):
        pass

    def update(self, *arrays):
        pass

    def result(self):
        return next(self.values)


class Log(nn.Callback):
    def __init__(self, every_steps=None):
        self.every_steps = every_steps
        self.calls = []

    def begin(self, training):
        self.calls.append("begin")

    def after_steps(self, training):
        self.calls.append(training.n_steps)

    def after_epoch(self, training, record):
        self.calls.append(f"epoch {record['epoch']}")

    def end(self, training):
        self.calls.append("end")


def test_callbacks_are_called_in_the_order_of_training(small, train):
    log = Log(every_steps=4)
    train(small.make()[0], small.data, 2, batch_size=4, callbacks=log)
    assert log.calls == ["begin", 4, "epoch 1", 8, 12, "epoch 2", "end"]


@pytest.mark.parametrize("n_accumulated", [1, 2])
def test_a_callback_can_freeze_parameters_between_epochs(small, train, n_accumulated):
    class Freeze(nn.Callback):
        def after_epoch(self, training, record):
            values.append(small.variables(model))
            if record["epoch"] == 2:
                model.freeze("fc_0_*")

    values = []
    optimizer = nn.optimizer.Accumulate(nn.optimizer.SGD(0.5), steps=n_accumulated)
    model = small.make(optimizer)[0]
    train(model, small.data, 4, batch_size=4, callbacks=[Freeze()])
    weights = [[value[f"fc_{i}_w_param"] for value in values] for i in range(2)]
    assert len(set(weights[0])) == 2
    assert weights[0][1] == weights[0][3]
    assert len(set(weights[1])) == 4


def test_a_callback_can_stop_training(small, train):
    class Stop(nn.Callback):
        def after_epoch(self, training, record):
            training.stop("enough")

    history = train(small.make()[0], small.data, 9, callbacks=[Stop()])
    assert len(history) == 1
    assert history.stop_reason == "enough"


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "options", "n_epochs"),
    [
        ([1, 2, 3, 3, 3, 9], {"patience": 2}, 5),
        ([1, 2, 2, 3, 3, 3, 9], {"patience": 2}, 6),
        ([1, 1, 9], {"patience": 0}, 2),
        ([3, 2, 1, 1, 1, 0], {"patience": 2, "mode": "min"}, 5),
        ([1, 1.05, 1.09, 9], {"patience": 2, "min_delta": 0.1}, 3),
        ([NAN, NAN, 1, NAN, 2], {"patience": 2}, 2),
        ([1, 2, 3, 4, 5], {"patience": 1}, 5),
    ],
)
def test_early_stopping_stops_after_patience_epochs(small, train, values, options, n_epochs):
    history = train(
        small.make()[0],
        small.data,
        len(values),
        metrics={"score": Scripted(values)},
        callbacks=[nn.EarlyStopping("score", **options)],
    )
    assert len(history) == n_epochs
    stopped = n_epochs < len(values) or values == [1, 2, 2, 3, 3, 3, 9]
    assert ("score has not improved" in history.stop_reason) is stopped


def test_a_smaller_loss_counts_as_better(small, train):
    model = small.make(nn.optimizer.SGD(0.0), drop=0)[0]
    history = train(model, small.data, 9, callbacks=[nn.EarlyStopping(patience=3, min_delta=0.01)])
    assert len(history) == 4


def test_plateau_lowers_the_rate_without_a_new_plan(small, train):
    model = small.make(nn.optimizer.SGD(0.8))[0]
    history = train(
        model,
        small.data,
        7,
        metrics={"score": Scripted([1, 1, 1, 1, 1, 2, 2])},
        callbacks=[nn.Plateau("score", factor=0.5, patience=2, min_rate=0.3)],
    )
    np.testing.assert_allclose(
        history["learning_rate"], [0.8, 0.8, 0.8, 0.4, 0.4, 0.3, 0.3], rtol=1e-6
    )


def test_plateau_refuses_a_schedule_and_a_step_without_an_optimizer(small, train):
    model = small.make(nn.optimizer.SGD(nn.schedule.step(0.1, 3)))[0]
    with pytest.raises(ProgramError, match="Plateau: the learning rate must be a number, got a sc"):
        train(model, small.data, 1, callbacks=[nn.Plateau()])
    with pytest.raises(ProgramError, match="Plateau: the training must have an optimizer"):
        train(lambda x, y: 0.0, small.data, 1, callbacks=[nn.Plateau()])


@pytest.mark.parametrize(
    ("make", "error", "rule"),
    [
        (lambda: nn.EarlyStopping("loss", patient=3), AttributeTypeError, "mean 'patience'"),
        (lambda: nn.EarlyStopping("loss", mode="mix"), AttributeValueError, "got 'mix'; did you"),
        (lambda: nn.EarlyStopping(3), AttributeTypeError, "EarlyStopping: monitor must be"),
        (lambda: nn.EarlyStopping(patience=-1), AttributeValueError, "patience must be"),
        (lambda: nn.Plateau(factor=2.0), AttributeValueError, "Plateau: factor must be"),
        (lambda: nn.Plateau(facter=0.5), AttributeTypeError, "did you mean 'factor'"),
        (lambda: nn.Checkpoint(3), AttributeTypeError, "Checkpoint: folder must be"),
        (lambda: nn.Checkpoint("a", keep=0), AttributeValueError, "Checkpoint: keep must be"),
        (lambda: nn.Checkpoint("a", every_step=3), AttributeTypeError, "mean 'every_steps'"),
        (lambda: nn.Checkpoint("a", every_epochs=0), AttributeValueError, "every_epochs must be"),
        (lambda: nn.metrics.Accuracy(3, "y"), AttributeTypeError, "Accuracy: variables must be"),
        (lambda: nn.metrics.Accuracy("a", lables="y"), AttributeTypeError, "did you mean 'labels'"),
    ],
)
def test_the_error_names_a_wrong_argument_of_a_callback(make, error, rule):
    with pytest.raises(error, match=rule):
        make()


INTERRUPTED = """
import sys, time
import numpy as np
import opwright_nn as nn

model = nn.Model()
model.backward(model.mean(model.fc_layer("x", size=2)))
model.sgd(0.1)

class Started(nn.Callback):
    every_steps = 1
    def after_steps(self, training):
        if training.n_steps == 3:
            print("started", flush=True)
        time.sleep(0.01)

history = nn.train(
    model, (np.ones((8, 3), np.float32),), 100000, batch_size=4,
    callbacks=[Started(), nn.Checkpoint(sys.argv[1])],
)
print(history.stop_reason, len(history) < 100000)
(saved,) = [nn.checkpoint.resume(sys.argv[1], model.program, model.scope)["training"]]
print(saved["n_steps"] >= 3)
"""


def test_ctrl_c_stops_training_after_the_step_with_everything_saved(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=600)
    assert out == "interrupted True\nTrue\n"
    assert "interrupted" in errors
    assert process.returncode == 0


def test_a_second_ctrl_c_stops_immediately(small):
    class Press(nn.Callback):
        every_steps = 1

        def after_steps(self, training):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        nn.train(small.make()[0], small.data, 9, callbacks=[Press()], progress=False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
