"""Resumed training restores everything, or reports what differs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeValueError, FileMissingError, FormatError, ProgramError

KILLS = int(os.environ.get("OPWRIGHT_RESUME_KILLS", "5"))


@pytest.fixture
def make(tiny):
    """Return a function that makes a model with dropout, filled with the samples."""

    def make(rate=0.1, drop=0.5, optimizer="adam", size=5):
        model = nn.Model()
        hidden = model.dropout(model.fc_layer("img", size=size, activation="relu"), drop)
        prob = model.fc_layer(hidden, size=3, activation="softmax")
        model.backward(model.mean(model.cross_entropy(prob, "label")))
        model.optimize(optimizer, learning_rate=rate)
        tiny.fill(model)
        return model

    return make


@pytest.fixture
def trained(make, tmp_path):
    """A model that was saved after three steps and a change of its learning rate."""
    model = make()
    model.initialize_parameters(seed=11)
    for _ in range(3):
        model.run()
    model.set_learning_rate(0.05)
    model.save(tmp_path / "model")
    return model


def persistables(model):
    found = [var for var in model.program.global_block().vars.values() if var.persistable]
    return {var.name: model.scope.var(var.name).numpy() for var in found}


def check_equal_bits(model, other):
    found, expected = persistables(model), persistables(other)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_resumed_training_is_bitwise_identical_to_uninterrupted_training(make, trained, tmp_path):
    again = make()
    assert again.resume(tmp_path / "model") is True
    assert again.program.seed == 11
    check_equal_bits(again, trained)
    for _ in range(5):
        assert again.run()[0].tobytes() == trained.run()[0].tobytes()
    check_equal_bits(again, trained)


def test_a_model_that_has_already_run_can_be_resumed(make, trained, tmp_path):
    again = make(rate=0.3)
    again.initialize_parameters(seed=2)
    again.run()
    again.resume(tmp_path / "model")
    assert again.run()[0].tobytes() == trained.run()[0].tobytes()
    check_equal_bits(again, trained)


def test_load_parameter_restores_the_random_seed(make, tmp_path):
    model = make()
    model.initialize_parameters(seed=11)
    model.run()
    model.save(tmp_path / "model")
    again = make()
    again.load_parameter(tmp_path / "model")
    for _ in range(3):
        assert again.run()[0].tobytes() == model.run()[0].tobytes()


def test_load_parameter_warns_of_a_different_learning_rate(make, trained, tmp_path):
    with pytest.warns(RuntimeWarning, match=r"learning rate 0\.1 instead of 0\.05; model\.resume"):
        make().load_parameter(tmp_path / "model")


def test_load_parameter_warns_of_different_operator_attributes(make, trained, tmp_path):
    other = make(rate=0.05, drop=0.25)
    with pytest.warns(RuntimeWarning, match=r"dropout, with .* 0\.5 instead of 0\.25; model\.res"):
        other.load_parameter(tmp_path / "model")


def test_load_parameter_from_a_different_model_does_not_warn(make, trained, tmp_path):
    make(optimizer="sgd").load_parameter(tmp_path / "model")


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"drop": 0.25}, "operator .*, dropout, with .* 0.5 instead of 0.25"),
        ({"optimizer": "sgd"}, "with type adam instead of sgd"),
        ({"size": 6}, r"'fc_0_w_param' as float32\[8, 5\] instead of float32\[\?, 6\]"),
    ],
)
def test_resuming_a_different_model_is_refused_and_changes_nothing(
    make, trained, tmp_path, options, rule
):
    other = make(**options)
    with pytest.raises(ProgramError, match=rf"Model\.resume: .*{rule}"):
        other.resume(tmp_path / "model")
    assert not any(other.scope.var(p.name).is_set for p in other.parameters)
    assert other.program.seed == 0


def test_a_model_with_different_random_streams_counts_as_different(make, trained, tmp_path):
    other = make()
    (dropout,) = [op for op in other.program.global_block().ops if op.type == "dropout"]
    dropout.attrs = {**dropout.attrs, "stream": 77}
    with pytest.raises(ProgramError, match=r"dropout, with stream \d+ instead of 77"):
        other.resume(tmp_path / "model")


def test_the_position_in_the_data_is_restored(make, tiny, tmp_path):
    def batches(**options):
        options = {"size": 4, "epochs": 3, "seed": 2, **options}
        return nn.batches((tiny.images, tiny.labels), **options)

    def run(model, data, stop=None):
        losses = []
        for images, labels in data:
            model.fill("img", images)
            model.fill("label", labels)
            losses.append(model.run()[0].tobytes())
            if len(losses) == stop:
                model.save(tmp_path / "model", data)
        return losses

    model = make()
    whole = run(model, batches(), stop=3)
    again, data = make(), batches()
    assert again.resume(tmp_path / "model", data)
    assert data.position["epoch"] == 1
    assert run(again, data) == whole[3:]
    check_equal_bits(again, model)
    other = make()
    with pytest.raises(ProgramError, match="batches must be passed .* has a position in the data"):
        other.resume(tmp_path / "model")
    with pytest.raises(AttributeValueError, match="seed=2 instead of 3"):
        other.resume(tmp_path / "model", batches(seed=3))
    assert not any(other.scope.var(p.name).is_set for p in other.parameters)


def test_batches_are_refused_if_no_position_was_saved(make, tiny, trained, tmp_path):
    with pytest.raises(ProgramError, match="batches must be passed .* has no position in the data"):
        make().resume(tmp_path / "model", nn.batches((tiny.images,), 4))


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ([], r"opwright_nn.position must be a mapping, got \[\]"),
        ({"epoch": 0}, "opwright_nn.position must be a mapping with 'batch'"),
        ({"epoch": -1}, "opwright_nn.position.epoch must be an int in"),
        ({"batch": True}, "opwright_nn.position.batch must be an int in .*, got True"),
        ({"arrays": [1]}, r"opwright_nn.position.arrays\[0\] must be text, got 1"),
        ({"other": 1}, "opwright_nn.position must be a mapping without 'other'"),
    ],
)
def test_an_invalid_position_is_refused(make, tiny, tmp_path, position, message):
    batches = nn.batches((tiny.images,), 4)
    model = make()
    model.initialize_parameters(img=tiny.images)
    if position != [] and "with 'batch'" not in message:
        position = {**batches.position, **position}
    ow.save(tmp_path, model.program, model.scope, notes={"opwright_nn.position": position})
    with pytest.raises(FormatError, match=f"latest/generation.json: {message}"):
        make().resume(tmp_path, batches)


def test_a_missing_save_raises_unless_missing_ok_is_true(make, tmp_path):
    model = make()
    with pytest.raises(FileMissingError, match="must be a folder that opwright.save has written"):
        model.resume(tmp_path / "model")
    assert model.resume(tmp_path / "model", missing_ok=True) is False
    (tmp_path / "model").mkdir()
    assert model.resume(tmp_path / "model", missing_ok=True) is False


def test_a_damaged_save_raises_even_if_missing_ok_is_true(make, trained, tmp_path):
    path = tmp_path / "model" / "latest"
    (path / "params.safetensors").rename(path / "params")
    with pytest.raises(FormatError, match=r"must contain generation\.json, program\.pb and params"):
        make().resume(tmp_path / "model", missing_ok=True)
    (path / "generation.json").unlink()
    with pytest.raises(FileMissingError, match="must be next to the program"):
        make().resume(path, missing_ok=True)


def test_a_model_keeps_the_requested_number_of_saves(trained, tmp_path):
    for _ in range(3):
        trained.save(tmp_path / "model", keep=3)
    assert len(list((tmp_path / "model" / "generations").iterdir())) == 3


def test_killed_and_resumed_training_is_bitwise_identical_to_uninterrupted_training():
    script = Path(__file__).parent / "resume_campaign.py"
    command = [sys.executable, script, "--kills", str(KILLS)]
    subprocess.run(command, check=True, timeout=600)
