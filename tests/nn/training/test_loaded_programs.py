"""`nn.train` with a loaded program trains its parameters for a loss given by name."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeValueError, ProgramError, VariableNotFoundError

X = np.random.default_rng(1).random((6, 8), np.float32)


def save_model(folder, seed):
    model = nn.Model()
    prob = model.fc_layer("img", 3, activation="softmax")
    model.initialize_parameters(seed=seed, img=X)
    ow.save(folder, model.program, model.scope, [prob])
    return model.predict(prob, img=X)


def with_loss(folder, **options):
    """Load a model and append a loss; return both."""
    loaded = ow.load(folder, **options)
    with ow.program_guard(loaded.program):
        label = nn.layers.data("label", [None, 1], "int64")
        prob = loaded.program.global_block().var(loaded.fetches[0].name)
        return loaded, nn.layers.mean(nn.layers.cross_entropy(prob, label))


DATA = {"img": X, "label": np.array([0, 2, 1, 1, 0, 2])[:, None]}


def test_a_loaded_program_is_trained_with_a_loss_and_an_optimizer(tmp_path):
    before = save_model(tmp_path, 1)
    loaded, loss = with_loss(tmp_path)
    np.testing.assert_array_equal(loaded(X)[0], before)
    history = nn.train(
        loaded,
        DATA,
        20,
        loss=loss,
        optimizer=nn.optimizer.Adam(0.1),
        validation=DATA,
        progress=False,
    )
    assert history["loss"][-1] < history["loss"][0] / 2
    after = loaded(X)["fc_0_out"]
    assert np.abs(after - before).max() > 0.1
    loaded.save(tmp_path / "tuned")
    np.testing.assert_array_equal(ow.load(tmp_path / "tuned")(X)[0], after)


def test_training_of_a_loaded_program_can_be_resumed(tmp_path):
    save_model(tmp_path / "model", 1)

    def run(epochs, folder):
        loaded, loss = with_loss(tmp_path / "model")
        saver = nn.Checkpoint(tmp_path / folder)
        adam = nn.optimizer.Adam(0.1)
        options = {"callbacks": [saver], "resume": "latest", "progress": False}
        nn.train(loaded, DATA, epochs, loss=loss, optimizer=adam, **options)
        return loaded.parameters()["fc_0_w_param"]

    run(2, "parts")
    np.testing.assert_array_equal(run(4, "parts"), run(4, "whole"))


def test_a_program_that_was_saved_with_updates_is_trained_unchanged(tmp_path):
    def make():
        model = nn.Model()
        prob = model.fc_layer("img", 3, activation="softmax")
        loss = model.mean(model.cross_entropy(prob, "label"))
        model.minimize(loss, nn.optimizer.Adam(0.1))
        nn.train(model, DATA, 2, progress=False)
        return model, loss

    model, loss = make()
    model.save(tmp_path)
    loaded = ow.load(tmp_path)
    history = nn.train(loaded, DATA, 2, loss=loss.name, progress=False)
    expected = nn.train(model, DATA, 2, progress=False)
    assert history["loss"] == expected["loss"]
    np.testing.assert_array_equal(
        loaded.parameters()["fc_0_w_param"], model.scope.var("fc_0_w_param").numpy()
    )


def test_the_error_asks_for_a_missing_loss_or_optimizer(tmp_path):
    save_model(tmp_path, 1)
    adam = nn.optimizer.Adam(0.1)
    loaded, loss = with_loss(tmp_path)
    with pytest.raises(AttributeValueError, match="loss must name the loss .*are 'fc_0_out'"):
        nn.train(loaded, DATA, 1)
    with pytest.raises(ProgramError, match="updates of one optimizer, got none; pass optimizer="):
        nn.train(loaded, DATA, 1, loss=loss)
    with pytest.raises(VariableNotFoundError, match="train: loss: no such variable, got 'mean'"):
        nn.train(loaded, DATA, 1, loss="mean", optimizer=adam)
    with pytest.raises(
        ProgramError, match="must have its parameters to be called, trained or saved"
    ):
        nn.train(ow.load_program(tmp_path), DATA, 1, loss=loss, optimizer=adam)
    with pytest.raises(AttributeValueError, match="loss applies only to a loaded .*with a Model"):
        nn.train(nn.Model(), DATA, 1, loss="x")
    nn.train(loaded, DATA, 1, loss=loss, optimizer=adam, progress=False)
    with pytest.raises(ProgramError, match="got a second optimizer; omit it"):
        nn.train(loaded, DATA, 1, loss=loss, optimizer=adam)
