"""Laws of resumed trainings: the bits of one that was never ended, from any checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeValueError, ProgramError
from opwright_nn import layers
from opwright_nn.training.history import TIMES

KILLS = int(os.environ.get("OPWRIGHT_TRAIN_KILLS", "5"))


class Leave(nn.Callback):
    """Raises after so many steps, as a crash would."""

    def __init__(self, n_steps):
        self.every_steps = n_steps

    def after_steps(self, training):
        raise RuntimeError("left")


def rows(history):
    return [{n: v for n, v in record.items() if n not in TIMES} for record in history.records]


@pytest.mark.parametrize("n_steps", [1, 3, 6, 7, 11])
@pytest.mark.parametrize("kind", ["arrays", "list"])
def test_a_training_that_crashed_ends_with_the_same_bits(small, train, tmp_path, n_steps, kind):
    data, options = small.data, {"batch_size": 4}
    if kind == "list":
        data, options = list(nn.batches(small.data, 4)), {}

    def run(folder, *callbacks):
        model, scores, _ = small.make(nn.optimizer.Adam(nn.schedule.cosine(0.1, 18)))
        history = train(
            model,
            data,
            3,
            validation=small.data,
            metrics={"accuracy": nn.metrics.Accuracy(scores, "y")},
            callbacks=[*callbacks, nn.Checkpoint(folder, every_steps=2)],
            resume="latest",
            **options,
        )
        return small.variables(model), rows(history)

    whole = run(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="left"):
        run(tmp_path / "parts", Leave(n_steps))
    assert run(tmp_path / "parts") == whole
    assert run(tmp_path / "parts") == whole  # it is over, and nothing is run again


def test_more_epochs_continue_an_ended_training(small, train, tmp_path):
    whole = small.make()[0]
    train(whole, small.data, 4, batch_size=4)
    for epochs in (1, 3, 4):
        model = small.make()[0]
        saver = nn.Checkpoint(tmp_path)
        history = train(model, small.data, epochs, batch_size=4, callbacks=[saver], resume="latest")
        assert len(history) == epochs
    assert small.variables(model) == small.variables(whole)


def test_without_resume_a_training_begins_anew(small, train, tmp_path):
    for _ in range(2):
        history = train(small.make()[0], small.data, 2, callbacks=[nn.Checkpoint(tmp_path)])
        assert history["steps"] == [1, 2]


def test_an_early_stop_stays_a_stop(small, train, tmp_path):
    def run():
        model = small.make(nn.optimizer.SGD(0.0), drop=0)[0]
        stop = nn.EarlyStopping(patience=2, min_delta=0.01)
        return train(
            model, small.data, 9, callbacks=[nn.Checkpoint(tmp_path), stop], resume="latest"
        )

    assert rows(run()) == rows(run())
    assert len(run()) == 3


def test_losses_that_are_no_numbers_are_saved(small, train, tmp_path):
    def step(x, y):
        return next(losses)

    losses = iter([float("inf"), float("nan"), 1.0])
    main = small.make()[0].program  # of which nothing is saved but the names
    model = small.make()[0]
    train(model, small.data, 1)
    step.scope = model.scope
    saver = nn.Checkpoint(tmp_path, program=main, best="loss")
    stop = nn.EarlyStopping("loss", patience=5)
    history = train(step, small.data, 3, callbacks=[saver, stop])
    again = train(step, small.data, 3, callbacks=[saver, stop], resume="latest")
    assert repr(again["loss"]) == repr(history["loss"]) == "[inf, nan, 1.0]"


def test_three_checkpoints_are_kept_and_the_best_apart(small, train, tmp_path):
    model, scores, _ = small.make()
    saver = nn.Checkpoint(tmp_path, best="loss")
    history = train(model, small.data, 6, callbacks=[saver])
    assert len(list((tmp_path / "generations").iterdir())) == 3
    best = min(range(6), key=lambda epoch: history["loss"][epoch])
    twin = small.make()[0]
    train(twin, small.data, best + 1)
    other = small.make()[0]
    other.load_parameter(tmp_path / "best")
    expected = twin.predict(scores.name, x=small.x)
    np.testing.assert_array_equal(other.predict(scores.name, x=small.x), expected)


def test_a_damaged_newest_checkpoint_is_passed_by(small, train, tmp_path):
    def run():
        model = small.make()[0]
        train(model, small.data, 4, callbacks=[nn.Checkpoint(tmp_path)], resume="latest")
        return small.variables(model)

    whole = run()
    newest = sorted((tmp_path / "generations").iterdir())[-1] / "params.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="train: skips the damaged checkpoint .*00000004"):
        assert run() == whole


def test_another_model_is_refused_with_the_variables_that_differ(small, train, tmp_path):
    train(small.make()[0], small.data, 1, callbacks=[nn.Checkpoint(tmp_path)])
    other = small.make(width=7)[0]
    with pytest.raises(ProgramError, match=r"'fc_0_w_param' as float32\[5, 6\] instead of"):
        train(other, small.data, 1, callbacks=[nn.Checkpoint(tmp_path)], resume="latest")


def test_other_data_is_refused_and_the_model_unchanged(small, train, tmp_path):
    train(small.make()[0], small.data, 1, batch_size=4, callbacks=[nn.Checkpoint(tmp_path)])
    other = small.make()[0]
    with pytest.raises(AttributeValueError, match="size=4 instead of 5"):
        train(
            other,
            small.data,
            1,
            batch_size=5,
            callbacks=[nn.Checkpoint(tmp_path)],
            resume="latest",
        )
    assert not any(other.scope.var(p.name).is_set for p in other.parameters)
    with pytest.raises(AttributeValueError, match="of the kind that was saved, arrays or nn.batch"):
        train(
            other,
            list(nn.batches(small.data, 4)),
            1,
            callbacks=[nn.Checkpoint(tmp_path)],
            resume="latest",
        )


def test_a_folder_of_model_save_is_refused(small, train, tmp_path):
    model = small.make()[0]
    train(model, small.data, 1)
    model.save(tmp_path)
    with pytest.raises(ProgramError, match="must hold checkpoints of nn.train, got one without"):
        train(small.make()[0], small.data, 2, callbacks=[nn.Checkpoint(tmp_path)], resume="latest")


def test_a_model_goes_on_by_hand_from_a_checkpoint_of_train(small, train, tmp_path):
    whole = small.make()[0]
    train(whole, small.data, 2, batch_size=4)
    train(small.make()[0], small.data, 1, batch_size=4, callbacks=[nn.Checkpoint(tmp_path)])
    model = small.make()[0]
    batches = nn.batches(small.data, 4, epochs=2)
    assert model.resume(tmp_path, batches)
    for x, y in batches:
        model.fill("x", x)
        model.fill("y", y)
        model.run()
    assert small.variables(model) == small.variables(whole)


def test_a_step_is_resumed_with_its_program(small, train, tmp_path):
    def run(folder, *callbacks):
        with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
            x = layers.data("x", [None, 5])
            y = layers.data("y", [None, 1], dtype="int64")
            hidden = layers.dropout(x, 0.3)
            loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, size=3), y))
            nn.optimizer.Adam(0.1).minimize(loss)
        scope = ow.Scope()
        ow.Network(startup.global_block()).run(scope)
        network = ow.Network(main.global_block())
        step = network.compile(feed=["x", "y"], fetch=[loss], scope=scope)
        saver = nn.Checkpoint(folder, every_steps=2, program=main)
        callbacks = [*callbacks, saver]
        train(step, small.data, 3, batch_size=4, callbacks=callbacks, resume="latest")
        return {name: scope.var(name).numpy().tobytes() for name in scope.names()}

    whole = run(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="left"):
        run(tmp_path / "parts", Leave(5))
    assert run(tmp_path / "parts") == whole


def test_a_step_without_its_program_cannot_be_saved(small, train, tmp_path):
    with pytest.raises(ProgramError, match=r"write Checkpoint\(folder, program=main\)"):
        train(lambda x, y: 0.0, small.data, 1, callbacks=[nn.Checkpoint(tmp_path)])


@pytest.mark.timeout(max(900, 3 * KILLS))
def test_trainings_that_are_killed_end_with_the_bits_of_one_that_was_not():
    script = Path(__file__).parent / "kill_campaign.py"
    command = [sys.executable, script, "--kills", str(KILLS)]
    subprocess.run(command, check=True, timeout=max(600, 3 * KILLS))
