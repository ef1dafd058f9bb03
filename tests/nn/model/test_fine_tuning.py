"""Fine-tuning: loading parts of a checkpoint, and freezing parameters at any time."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, ProgramError, VariableNotFoundError

X = np.random.default_rng(0).random((6, 4), np.float32)
Y = np.array([0, 1, 2, 0, 1, 2])
BACKBONE = [
    "backbone_w_param",
    "backbone_b_param",
    "norm_w_param",
    "norm_b_param",
    "norm_mean",
    "norm_variance",
]


def make(classes=3, optimizer="momentum"):
    """Return a backbone with a head."""
    model = nn.Model()
    h = model.fc_layer("x", 5, activation="relu", name="backbone")
    h = model.batch_norm(h, name="norm")
    prob = model.fc_layer(h, classes, activation="softmax", name="head")
    model.backward(model.mean(model.cross_entropy(prob, "label")))
    model.optimize(optimizer)
    model.fill("x", X)
    model.fill("label", Y)
    return model


def values(model, names=None):
    """Return copies of variables from the scope of a model."""
    held = [name for name in model.scope.names() if model.scope.var(name).is_set]
    return {name: model.scope.var(name).numpy() for name in names or held}


def changed(before, after):
    return [name for name, value in before.items() if (after[name] != value).any()]


@pytest.fixture
def folder(tmp_path):
    """A folder with a trained model for three classes."""
    model = make()
    for _ in range(3):
        model.run()
    model.save(tmp_path)
    return tmp_path, values(model)


@pytest.mark.parametrize(
    "options", [{"only": ["backbone_*", "norm_*"]}, {"strict": False}, {"only": BACKBONE}]
)
def test_a_backbone_is_loaded_into_a_model_with_a_new_head(folder, options):
    path, saved = folder
    model = make(classes=7)
    assert sorted(model.load_parameter(path, **options)) == sorted(BACKBONE)
    got = values(model, BACKBONE)
    for name in BACKBONE:
        np.testing.assert_array_equal(got[name], saved[name], err_msg=name)
    model.run()
    assert model.scope.var("head_w_param").numpy().shape == (5, 7)


def test_parameters_to_load_must_match(folder):
    path, _ = folder
    model = make(classes=7)
    with pytest.raises(ProgramError, match=r"must hold all .* 'head_w_param' as float32\[5, 3\]"):
        model.load_parameter(path, only="head_*")
    with pytest.raises(ProgramError, match="must hold some .*'head_b_param'"):
        model.load_parameter(path, only="head_*", strict=False)
    with pytest.raises(VariableNotFoundError, match="got 'bakbone_w_param'; did you mean 'backb"):
        model.load_parameter(path, only="bakbone_w_param")
    with pytest.raises(ProgramError, match="must hold the parameters of this model"):
        model.load_parameter(path)
    with pytest.raises(AttributeTypeError, match="Model.load_parameter: strict must be"):
        model.load_parameter(path, strict=0)
    with pytest.raises(AttributeTypeError, match="^Model.load_parameter: .* got 'filter'"):
        model.load_parameter(path, filter="head_*")


def test_a_frozen_parameter_is_unchanged_and_other_parameters_are_trained():
    model = make()
    model.run()
    before = values(model)
    assert model.freeze("backbone_*") == BACKBONE[:2]
    model.run()
    moved = changed(before, values(model))
    assert not {*BACKBONE[:2], "backbone_w_param_velocity"} & {*moved}
    assert {"head_w_param", "norm_w_param"} <= {*moved}
    before = values(model)
    model.unfreeze(["backbone_w_param"])
    model.run()
    moved = changed(before, values(model))
    assert "backbone_w_param" in moved
    assert "backbone_b_param" not in moved


def test_a_parameter_that_is_unfrozen_trains_as_if_it_had_not_been_frozen():
    models = make(), make()
    models[0].freeze("*")
    models[0].unfreeze("*")
    for _ in range(3):
        assert models[0].run()[0] == models[1].run()[0]


def test_a_parameter_frozen_before_backward_cannot_be_unfrozen():
    model = nn.Model()
    loss = model.mean(model.fc_layer(model.fc_layer("x", 3, name="a"), 3, name="b"))
    model.freeze("a_*")
    model.backward(loss)
    model.sgd()
    model.fill("x", X)
    model.run()
    with pytest.raises(
        ProgramError, match="Model.unfreeze: parameters must have an update, got 'a_w"
    ):
        model.unfreeze("a_w_param")
    assert not model.program.global_block().var("a_w_param").trainable


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_frozen_model_is_frozen_and_can_be_unfrozen(twin):
    model = make()
    model.run()
    model.freeze("backbone_*")
    second = twin(model)
    before = values(second)
    for name, array in {"x": X, "label": Y}.items():
        second.fill(name, array)
    second.run()
    assert "backbone_w_param" not in changed(before, values(second))
    second.unfreeze("backbone_*")
    second.run()
    assert "backbone_w_param" in changed(before, values(second))


def test_training_of_a_frozen_model_can_be_resumed(tmp_path):
    models = make(), make()
    for model in models:
        model.freeze("backbone_*")
    models[0].run()
    models[0].save(tmp_path)
    models[1].resume(tmp_path)
    assert models[0].run()[0] == models[1].run()[0]
    with pytest.raises(ProgramError, match="must hold this model"):
        make().resume(tmp_path)


def test_a_pattern_without_a_match_changes_nothing():
    model = make()
    text = str(model.program)
    with pytest.raises(VariableNotFoundError, match="Model.freeze: each name .* got 'tail_"):
        model.freeze(["backbone_*", "tail_*"])
    assert str(model.program) == text
    assert all(parameter.trainable for parameter in model.parameters)
    with pytest.raises(AttributeTypeError, match="Model.freeze: parameters must be a list"):
        model.freeze(3)


STATISTICS = ["norm_mean", "norm_variance"]


def test_a_frozen_normalization_uses_its_running_statistics_and_keeps_them():
    model = make()
    for _ in range(3):
        model.run()
    model.freeze("norm_*")
    before = values(model, STATISTICS)
    expected = model.predict("norm_out", x=X)
    np.testing.assert_allclose(model.run(fetch=["norm_out"])[0], expected, atol=1e-6)
    assert not changed(before, values(model))
    model.unfreeze("norm_b_param")
    model.run()
    assert changed(before, values(model)) == STATISTICS


def test_after_unfreeze_a_normalization_with_training_false_is_not_trained():
    model = nn.Model()
    out = model.batch_norm(model.fc_layer("x", 3), training=False, name="norm")
    model.minimize(model.mean(out), "sgd")
    model.freeze("norm_*")
    model.unfreeze("norm_*")
    model.fill("x", X)
    model.run()
    assert not changed({"norm_mean": np.zeros(3)}, values(model))


def test_the_gradient_through_a_frozen_normalization_uses_its_running_statistics():
    models = []
    for frozen_late in (False, True):
        model = nn.Model()
        h = model.fc_layer("x", 5, name="below")
        h = model.batch_norm(h, name="norm")
        loss = model.mse(model.fc_layer(h, 2, name="head"), "y", reduction="mean")
        if not frozen_late:
            model.freeze("norm_*")
        model.minimize(loss, "sgd")
        if frozen_late:
            model.freeze("norm_*")
        model.fill("x", X)
        model.fill("y", X[:, :2])
        for _ in range(3):
            model.run()
        models.append(values(model))
    for name in ("below_w_param", "norm_mean", "head_w_param"):
        np.testing.assert_array_equal(models[0][name], models[1][name])


def test_a_loaded_program_with_trainable_false_keeps_its_statistics(folder):
    path, saved = folder
    loaded = ow.load(path, trainable=False, fetch="norm_out")
    network = ow.Network(loaded.program.global_block())
    step = network.compile(["x", "label"], ["norm_out"], scope=loaded.scope)
    step(x=X, label=Y)
    np.testing.assert_array_equal(loaded.scope.var("norm_mean").numpy(), saved["norm_mean"])


def test_a_loaded_program_returns_any_variable_by_its_name(folder):
    path, _ = folder
    model = make()
    model.load_parameter(path)
    for fetch in ("norm_out", ["norm_out"]):
        (features,) = ow.load(path, fetch=fetch)(x=X)
        np.testing.assert_allclose(features, model.predict("norm_out", x=X), rtol=1e-6)
    with pytest.raises(VariableNotFoundError, match="got 'norm_oot'; did you mean 'norm_out'"):
        ow.load(path, fetch="norm_oot")


def test_a_layer_that_is_appended_after_the_optimizer_raises():
    model = make()
    late = model.fc_layer("norm_out", 2, name="late")
    with pytest.raises(ProgramError, match=r"'late_w_param' after it, .*never be trained; move"):
        model.run()
    with pytest.raises(ProgramError, match="Model.compile_step: layers must be appended before"):
        model.compile_step({"x": X, "label": Y})
    model.freeze("late_*")
    model.run()
    assert model.predict(late, x=X).shape == (6, 2)


def test_a_layer_that_is_applied_twice_trains_one_weight():
    model = nn.Model()
    left, right = (model.fc_layer(side, 3, name="twin") for side in ("left", "right"))
    model.minimize(model.mse(left, right * 2.0, reduction="mean"), "sgd")
    feeds = {"left": X, "right": X[::-1].copy()}
    model.initialize_parameters(seed=1, **feeds)
    before = values(model)
    for name, array in feeds.items():
        model.fill(name, array)
    model.run()
    w, b = before["twin_w_param"].astype(float), before["twin_b_param"].astype(float)
    gap = (X @ w + b) - 2 * (X[::-1] @ w + b)
    gradient = (X - 2 * X[::-1]).T @ (2 * gap / gap.size)
    rate = model.learning_rate
    np.testing.assert_allclose(values(model)["twin_w_param"], w - rate * gradient, rtol=1e-5)
