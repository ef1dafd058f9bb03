"""Saving a Model and loading parameters from a folder."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    ProgramError,
    ShapeError,
    VariableNotFoundError,
)


def test_a_loaded_model_predicts_and_trains_like_the_saved_model(tiny, tmp_path):
    model, prob = tiny.make()
    model.initialize_parameters(seed=1)
    tiny.fill(model)
    for _ in range(5):
        model.run()
    model.save(tmp_path / "model")
    again, also = tiny.make()
    again.load_parameter(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict(also, img=tiny.images), model.predict(prob, img=tiny.images)
    )
    tiny.fill(again)
    np.testing.assert_array_equal(again.run()[0], model.run()[0])


def test_optimizer_states_are_saved(tiny, tmp_path):
    def momentum():
        model, prob = tiny.make(optimize=False)
        model.backward(model.mean(model.cross_entropy(prob, "label")))
        model.momentum(0.1, mu=0.9)
        tiny.fill(model)
        return model

    model = momentum()
    for _ in range(3):
        model.run()
    model.save(tmp_path / "model")
    again = momentum()
    again.load_parameter(tmp_path / "model")
    assert [float(again.run()[0]) for _ in range(3)] == [float(model.run()[0]) for _ in range(3)]


def test_a_model_without_optimizer_loads_a_save_with_optimizer_states(tiny, tmp_path):
    model, prob = tiny.make()
    tiny.fill(model)
    model.run()
    model.save(tmp_path / "model")
    plain, also = tiny.make(optimize=False)
    plain.load_parameter(tmp_path / "model")
    np.testing.assert_array_equal(
        plain.predict(also, img=tiny.images), model.predict(prob, img=tiny.images)
    )


def test_a_new_optimizer_starts_from_loaded_parameters(tiny, tmp_path):
    model, prob = tiny.make()
    tiny.fill(model)
    model.run()
    model.save(tmp_path / "model")
    tuned, prob = tiny.make(optimize=False)
    tuned.backward(tuned.mean(tuned.cross_entropy(prob, "label")))
    tuned.adam(0.0)
    tuned.load_parameter(tmp_path / "model")
    tiny.fill(tuned)
    tuned.run()
    for name, value in tiny.parameters(model).items():
        np.testing.assert_array_equal(tiny.parameters(tuned)[name], value)


def _six_wide(tiny):
    return tiny.make(width=6)[0]


def _three_layers(tiny):
    model, prob = tiny.make(optimize=False)
    model.fc_layer(prob, 3)
    return model


def _one_layer(tiny):
    model = nn.Model()
    model.fc_layer("img", 5)
    return model


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        (_six_wide, r"'fc_0_b_param' as float32\[5\] instead of float32\[6\]"),
        (_three_layers, "must hold the parameters of this model, got none for 'fc_2_"),
        (_one_layer, "'fc_1_w_param', which the model lacks"),
    ],
)
def test_parameters_of_another_model_are_refused_and_change_nothing(tiny, tmp_path, other, rule):
    model, _ = tiny.make()
    model.initialize_parameters(img=tiny.images)
    model.save(tmp_path / "model")
    another = other(tiny)
    with pytest.raises(ProgramError, match=f"Model.load_parameter: .*{rule}"):
        another.load_parameter(tmp_path / "model")
    assert not any(another.scope.var(p.name).is_set for p in another.parameters)


def test_the_loaded_width_must_match_the_data(tiny, tmp_path):
    model, _ = tiny.make()
    model.initialize_parameters(img=tiny.images)
    model.save(tmp_path / "model")
    again, prob = tiny.make()
    again.load_parameter(tmp_path / "model")
    with pytest.raises(ShapeError, match="fc: weight must have 7 rows"):
        again.predict(prob, img=tiny.images[:, :7])


def test_a_model_without_values_is_not_saved(tiny, tmp_path):
    model, _ = tiny.make()
    with pytest.raises(ProgramError, match=r"Model.save: all parameters must have values"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_saved_model_runs_without_its_script(tiny, tmp_path):
    model, prob = tiny.make()
    tiny.fill(model)
    model.run()
    model.save(tmp_path / "model")
    scope = ow.Scope()
    loaded = ow.load(tmp_path / "model", scope)
    assert set(loaded.program_feeds) == {"img", "label"}
    assert [fetch.name for fetch in loaded.fetches] == ["mean_0_out"]
    pruned = nn.inference_program(loaded.program, prob.name)
    network = ow.Network(pruned.global_block())
    (output,) = network.compile(["img"], [prob.name], scope=scope)(img=tiny.images)
    np.testing.assert_array_equal(output, model.predict(prob, img=tiny.images))


def test_loading_parameters_cancels_a_request_to_initialize(tiny, tmp_path):
    model, prob = tiny.make()
    tiny.fill(model)
    model.run()
    model.save(tmp_path / "model")
    again, also = tiny.make()
    again.initialize_parameters(seed=3)
    again.load_parameter(tmp_path / "model")
    assert again.parameters[0].shape == (8, 5)
    np.testing.assert_array_equal(
        again.predict(also, img=tiny.images), model.predict(prob, img=tiny.images)
    )


def test_an_export_contains_only_the_inference_program(tmp_path):
    model = nn.Model()
    h = model.dropout(model.batch_norm(model.fc_layer("x", 5)), 0.5)
    scores = model.fc_layer(h, 3, name="scores")
    loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
    model.minimize(loss, nn.optimizer.Adam(0.1))
    x = np.random.default_rng(0).random((6, 4), np.float32)
    with pytest.raises(ProgramError, match="Model.export: all parameters must have values"):
        model.export(tmp_path / "early", scores)
    model.fill("x", x)
    model.fill("label", np.arange(6) % 3)
    model.run()
    model.export(tmp_path / "out", scores)
    loaded = ow.load(tmp_path / "out")
    assert [spec.name for spec in loaded.feeds] == list(loaded.program_feeds) == ["x"]
    assert sorted(loaded.scope.names()) == sorted(loaded.parameters())
    ops = loaded.program.global_block().ops
    assert [op.type for op in ops] == ["fc", "batch_norm", "dropout", "fc"]
    assert not any(op.attrs.get("training") for op in ops)
    np.testing.assert_array_equal(loaded(x)[0], model.predict(scores, x=x))
    model.export(tmp_path / "two", [h, "scores_out"])
    assert ow.load(tmp_path / "two")(x).names == (h.name, "scores_out")
    with pytest.raises(VariableNotFoundError, match="Model.export: .*'score_out'; did you mean"):
        model.export(tmp_path / "no", "score_out")
