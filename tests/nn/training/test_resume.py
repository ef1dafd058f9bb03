"""Training resumed from any checkpoint is bitwise identical to uninterrupted training."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeValueError, FormatError, ProgramError
from opwright_nn import layers
from opwright_nn.checkpoint.state import pack_state, unpack_state
from opwright_nn.training.history import TIMES, pack_records, unpack_records

KILLS = int(os.environ.get("OPWRIGHT_TRAIN_KILLS", "5"))


class Leave(nn.Callback):
    """Raises after a number of steps, like a crash."""

    def __init__(self, n_steps):
        self.every_steps = n_steps

    def after_steps(self, training):
        raise RuntimeError("left")


def rows(history):
    return [{n: v for n, v in record.items() if n not in TIMES} for record in history.records]


@pytest.mark.parametrize("n_steps", [1, 3, 6, 7, 11])
@pytest.mark.parametrize("kind", ["arrays", "list"])
def test_resumed_training_after_a_crash_is_bitwise_identical(small, train, tmp_path, n_steps, kind):
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
    assert run(tmp_path / "parts") == whole  # training is complete, so no epoch runs


def test_more_epochs_continue_finished_training(small, train, tmp_path):
    whole = small.make()[0]
    train(whole, small.data, 4, batch_size=4)
    for epochs in (1, 3, 4):
        model = small.make()[0]
        saver = nn.Checkpoint(tmp_path)
        history = train(model, small.data, epochs, batch_size=4, callbacks=[saver], resume="latest")
        assert len(history) == epochs
    assert small.variables(model) == small.variables(whole)


def test_without_resume_training_starts_from_scratch(small, train, tmp_path):
    for _ in range(2):
        history = train(small.make()[0], small.data, 2, callbacks=[nn.Checkpoint(tmp_path)])
        assert history["steps"] == [1, 2]


def test_training_that_stopped_early_stays_stopped_when_resumed(small, train, tmp_path):
    def run():
        model = small.make(nn.optimizer.SGD(0.0), drop=0)[0]
        stop = nn.EarlyStopping(patience=2, min_delta=0.01)
        return train(
            model, small.data, 9, callbacks=[nn.Checkpoint(tmp_path), stop], resume="latest"
        )

    assert rows(run()) == rows(run())
    assert len(run()) == 3


def test_nan_losses_are_saved_and_resumed(small, train, tmp_path):
    def step(x, y):
        return next(losses)

    losses = iter([float("inf"), float("nan"), 1.0])
    main = small.make()[0].program  # only its variable names are saved
    model = small.make()[0]
    train(model, small.data, 1)
    step.scope = model.scope
    saver = nn.Checkpoint(tmp_path, program=main, best="loss")
    stop = nn.EarlyStopping("loss", patience=5)
    history = train(step, small.data, 3, callbacks=[saver, stop])
    again = train(step, small.data, 3, callbacks=[saver, stop], resume="latest")
    assert repr(again["loss"]) == repr(history["loss"]) == "[inf, nan, 1.0]"


def test_the_last_three_checkpoints_and_the_best_checkpoint_are_kept(small, train, tmp_path):
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


def test_a_damaged_newest_checkpoint_is_skipped(small, train, tmp_path):
    def run():
        model = small.make()[0]
        train(model, small.data, 4, callbacks=[nn.Checkpoint(tmp_path)], resume="latest")
        return small.variables(model)

    whole = run()
    newest = sorted((tmp_path / "generations").iterdir())[-1] / "params.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="train: skips the damaged checkpoint .*00000004"):
        assert run() == whole


def saved_state(folder):
    """Return the file with the newest state of a training run, and its content."""
    path = max((folder / "generations").iterdir()) / "generation.json"
    return path, json.loads(path.read_text())


def change_state(folder, change):
    """Change the newest state of a training run, with a correct checksum."""
    path, content = saved_state(folder)
    state = unpack_state(content["notes"])
    change(state["training"])
    path.write_text(json.dumps({**content, "notes": {**content["notes"], **pack_state(state)}}))
    return path


def set_field(*names, value):
    def change(state):
        for name in names[:-1]:
            state = state[name]
        state[names[-1]] = value

    return change


def keep_rows(state):
    rows = unpack_records("history", state["history"])
    state["history"] = pack_records([{**row, "steps": row["steps"] - 1} for row in rows])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_field("done", value=[1]), r"training.done must be an int in \[0, .*, got \[1\]"),
        (set_field("done", value=-1), "training.done must be an int in .*, got -1"),
        (set_field("done", value=True), "training.done must be an int in .*, got True"),
        (set_field("epoch", value=10**400), "training.epoch must be .*, got an int of 1329 bits"),
        (set_field("epoch", value=2**40), "training.history must be a row for each of 1099511"),
        (set_field("seconds", value=float("nan")), "training.seconds must be a finite number of"),
        (set_field("stop_reason", value=""), "training.stop_reason must be text that is not empty"),
        (set_field("other", value=1), "training must be a mapping without 'other'"),
        (lambda state: state.pop("totals"), "training must be a mapping with 'totals'"),
        (set_field("totals", "sums", value=[]), r"totals.sums must be a list of 1, got \[\]"),
        (set_field("totals", "sums", value=["x"]), r"totals.sums\[0\] must be a number as float"),
        (set_field("totals", "rows", value=4), "totals must be 0 where no step of the epoch is"),
        (set_field("history", "rows", value="AAAA"), "training.history.rows must be base64 of"),
        (set_field("history", "columns", value=["a", "a"]), "history.columns must be names that"),
        (keep_rows, "training.history must be rows whose steps increase up to 6 steps with the 0"),
        (set_field("n_steps", value=7), "training.history must be rows whose steps increase up"),
        (set_field("position", "batch", value=2), "training.n_steps must be 8 after 1 epochs of 6"),
        (set_field("position", "size", value="4"), "training.position.size must be an int in"),
        (
            set_field("callbacks", "EarlyStopping.0", value={"best": "nan", "n_worse": 0}),
            "callbacks.EarlyStopping.0 must be a result of its .*best must be a number, as NaN is",
        ),
        (
            set_field("callbacks", "EarlyStopping.0", "n_worse", value=-1),
            "callbacks.EarlyStopping.0 must be a result of its state.*n_worse must be an int in",
        ),
        (set_field("callbacks", "Counting.0", value={"n": "x"}), "callbacks.Counting.0.*ValueErr"),
    ],
)
def test_a_state_that_training_cannot_have_saved_is_refused(
    small, train, tmp_path, change, message
):
    class Counting(nn.Callback):
        def state(self):
            return {"n": 1}

        def restore(self, state):
            self.n = int(state["n"])

    callbacks = [nn.EarlyStopping("loss", patience=9), Counting(), nn.Checkpoint(tmp_path)]
    train(small.make()[0], small.data, 1, batch_size=4, callbacks=callbacks)
    path = change_state(tmp_path, change)
    model = small.make()[0]
    model.initialize_parameters(x=small.x)
    weight = model.scope.var("fc_0_w_param")
    before = weight.numpy()
    with pytest.raises(FormatError, match=f"^{path}: .*{message}.*; remove this generation to"):
        train(model, small.data, 2, batch_size=4, callbacks=callbacks, resume="latest")
    np.testing.assert_array_equal(weight.numpy(), before)


def test_a_state_of_a_callback_that_could_not_be_resumed_is_not_saved(small, train, tmp_path):
    class Listing(nn.Callback):
        def state(self):
            return [1]

    callbacks = [Listing(), nn.Checkpoint(tmp_path)]
    with pytest.raises(FormatError, match=r"callbacks.Listing.0 must be a mapping, got \[1\]"):
        train(small.make()[0], small.data, 1, callbacks=callbacks)


def test_parameters_of_the_best_epoch_must_match(small, train, tmp_path):
    def run(epochs):
        stop = nn.EarlyStopping("loss", patience=1, mode="max", restore_best=True)
        saver = nn.Checkpoint(tmp_path, best="loss", mode="max")
        model = small.make(drop=0.0)[0]
        return train(model, small.data, epochs, callbacks=[stop, saver], resume="latest")

    run(1)
    other = nn.Model()
    other.fc_layer(input="x", size=2)
    other.initialize_parameters(x=small.x)
    shutil.rmtree(tmp_path / "best")
    other.save(tmp_path / "best")
    with pytest.raises(ProgramError, match="best must hold the parameters of the best epoch, got"):
        run(9)


def test_the_error_for_a_different_model_names_the_differing_variables(small, train, tmp_path):
    train(small.make()[0], small.data, 1, callbacks=[nn.Checkpoint(tmp_path)])
    other = small.make(width=7)[0]
    with pytest.raises(ProgramError, match=r"'fc_0_w_param' as float32\[5, 6\] instead of"):
        train(other, small.data, 1, callbacks=[nn.Checkpoint(tmp_path)], resume="latest")


def test_different_data_is_refused_and_leaves_the_model_unchanged(small, train, tmp_path):
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
    with pytest.raises(AttributeValueError, match="of the saved kind, arrays or nn.batch"):
        train(
            other,
            list(nn.batches(small.data, 4)),
            1,
            callbacks=[nn.Checkpoint(tmp_path)],
            resume="latest",
        )


def test_a_folder_written_by_model_save_is_refused(small, train, tmp_path):
    model = small.make()[0]
    train(model, small.data, 1)
    model.save(tmp_path)
    with pytest.raises(ProgramError, match="must hold checkpoints of nn.train, got one without"):
        train(small.make()[0], small.data, 2, callbacks=[nn.Checkpoint(tmp_path)], resume="latest")


def test_a_model_is_resumed_manually_from_a_checkpoint_of_train(small, train, tmp_path):
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
def test_killed_and_resumed_training_is_bitwise_identical_to_uninterrupted_training():
    script = Path(__file__).parent / "kill_campaign.py"
    command = [sys.executable, script, "--kills", str(KILLS)]
    subprocess.run(command, check=True, timeout=max(600, 3 * KILLS))
