"""Initial values and predictions depend only on seed and data."""

from __future__ import annotations

import numpy as np

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers


def test_the_first_batch_determines_the_width(tiny):
    model, _ = tiny.make()
    assert model.parameters[0].shape == (-1, 5)
    tiny.fill(model)
    model.run()
    assert model.parameters[0].shape == (8, 5)
    assert model.scope.var("fc_0_w_param").shape == (8, 5)


def test_an_example_determines_the_width_before_any_batch(tiny):
    model, _ = tiny.make()
    model.initialize_parameters(img=tiny.images)
    assert model.scope.var("fc_0_w_param").shape == (8, 5)
    tiny.fill(model)
    model.run()
    assert model.program.global_block().var("label").shape == (-1, 1)


def test_an_input_can_be_declared():
    model = nn.Model()
    model.input("img", shape=[None, 8], dtype="float64")
    model.fc_layer("img", 5)
    assert (model.parameters[0].shape, model.parameters[0].dtype) == ((8, 5), "float64")
    model.initialize_parameters()
    assert model.scope.var("fc_0_w_param").dtype == "float64"


def test_a_width_is_inferred_and_a_free_dimension_remains_free():
    model = nn.Model()
    model.input("sound", shape=[None, None])
    model.input("img", shape=[None, None])
    with model.guard():
        loudness = layers.mean(model.input("sound"), axis=1, keepdims=True)
        model.backward(layers.mean(layers.concat([model.fc_layer("img", 1), loudness], axis=1)))
    model.sgd(0.1)
    for length in (3, 5):
        model.fill("sound", np.zeros((4, length), np.float32))
        model.fill("img", np.zeros((4, 8), np.float32))
        model.run()
    assert model.parameters[0].shape == (8, 1)


def test_initial_values_depend_only_on_the_seed(tiny):
    def first(seed, early):
        model, _ = tiny.make()
        if early:
            model.initialize_parameters(seed, img=tiny.images)
            return tiny.parameters(model)
        model.initialize_parameters(seed)
        tiny.fill(model)
        model.predict("fc_1_out", img=tiny.images)
        return tiny.parameters(model)

    early, late, other = first(1, True), first(1, False), first(2, True)
    for name, value in early.items():
        np.testing.assert_array_equal(late[name], value)
    assert not np.array_equal(early["fc_0_w_param"], other["fc_0_w_param"])


def test_run_initializes_parameters_without_a_value_as_initialize_parameters_does(tiny):
    asked, _ = tiny.make()
    asked.initialize_parameters()
    unasked, _ = tiny.make()
    for model in (asked, unasked):
        tiny.fill(model)
        model.run()
    for name, value in tiny.parameters(asked).items():
        np.testing.assert_array_equal(tiny.parameters(unasked)[name], value)


def test_only_a_layer_that_was_added_later_is_initialized(tiny):
    model, prob = tiny.make(optimize=False)
    model.initialize_parameters(seed=1, img=tiny.images)
    before = tiny.parameters(model)
    top = model.fc_layer(prob, 2)
    model.accuracy(top, "label")
    model.fill("img", tiny.images)
    model.fill("label", tiny.labels % 2)
    model.run()
    after = tiny.parameters(model)
    assert set(after) - set(before) == {"fc_2_w_param", "fc_2_b_param"}
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_reinitializing_restarts_training(tiny):
    model, _ = tiny.make()
    model.initialize_parameters(seed=1)
    tiny.fill(model)
    first = [float(model.run()[0]) for _ in range(3)]
    model.initialize_parameters(seed=1)
    assert [float(model.run()[0]) for _ in range(3)] == first


def test_initializing_with_a_seed_restarts_dropout(tiny):
    model = nn.Model()
    hidden = model.dropout(model.fc_layer("img", 50), 0.5)
    model.backward(model.mean(hidden))
    model.sgd(0.0)
    model.fill("img", tiny.images)
    model.initialize_parameters(seed=1)
    first = [float(model.run()[0]) for _ in range(3)]
    assert len(set(first)) == 3
    model.initialize_parameters(seed=1)
    assert [float(model.run()[0]) for _ in range(3)] == first


def test_the_batch_size_can_change(tiny):
    model, prob = tiny.make()
    for rows in (6, 1, 4):
        model.fill("img", tiny.images[:rows])
        model.fill("label", tiny.labels[:rows])
        assert np.isfinite(model.run()[0])
    assert model.predict(prob, img=np.repeat(tiny.images, 100, axis=0)).shape == (600, 3)


def test_filling_a_parameter_takes_effect_immediately(tiny):
    model, prob = tiny.make()
    model.initialize_parameters(img=tiny.images)
    model.fill("fc_1_w_param", np.zeros((5, 3), np.float32))
    np.testing.assert_allclose(model.predict(prob, img=tiny.images), 1 / 3, rtol=1e-6)


def test_two_models_do_not_share_anything_by_default(tiny):
    first, _ = tiny.make()
    second, _ = tiny.make()
    first.initialize_parameters(img=tiny.images)
    assert second.scope.find_var("fc_0_w_param") is None
    scope = ow.Scope()
    third, _ = tiny.make(scope=scope)
    third.initialize_parameters(img=tiny.images)
    assert scope.var("fc_0_w_param").is_set


def test_prediction_does_not_need_a_label_and_changes_nothing(tiny):
    model, prob = tiny.make()
    model.initialize_parameters(seed=1, img=tiny.images)
    before = tiny.parameters(model)
    weights = [before[f"fc_{i}_{kind}_param"] for i in range(2) for kind in "wb"]
    prediction = model.predict(prob, img=tiny.images)
    hidden = 1 / (1 + np.exp(-(tiny.images @ weights[0] + weights[1])))
    scores = np.exp(hidden @ weights[2] + weights[3])
    np.testing.assert_allclose(prediction, scores / scores.sum(axis=1, keepdims=True), rtol=1e-5)
    for name, value in before.items():
        np.testing.assert_array_equal(tiny.parameters(model)[name], value)
    np.testing.assert_array_equal(model.predict("fc_1_out", img=tiny.images), prediction)


def test_a_prediction_skips_dropout_and_does_not_draw_random_numbers(tiny):
    model = nn.Model()
    hidden = model.dropout(model.fc_layer("img", 50), 0.5)
    model.backward(model.mean(hidden))
    model.sgd(0.0)
    model.fill("img", tiny.images)
    model.initialize_parameters(seed=1)
    model.run()
    undropped = model.predict("fc_0_out", img=tiny.images)
    np.testing.assert_array_equal(model.predict(hidden, img=tiny.images), undropped)
    second = model.run()[0]
    model.initialize_parameters(seed=1)
    model.run()
    assert model.run()[0] == second


def test_prediction_uses_the_running_statistics_of_batch_norm(tiny):
    model = nn.Model()
    out = model.batch_norm("img")
    model.backward(model.mean(out))
    model.sgd(0.0)
    model.fill("img", tiny.images)
    for _ in range(200):
        model.run()
    mean, variance = tiny.images.mean(axis=0), tiny.images.var(axis=0)
    prediction = model.predict(out, img=tiny.images[:1])
    np.testing.assert_allclose(
        prediction, (tiny.images[:1] - mean) / np.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-4
    )


def test_a_prediction_uses_the_current_parameters(tiny):
    model, prob = tiny.make()
    tiny.fill(model)
    model.run()
    before = model.predict(prob, img=tiny.images)
    model.run()
    assert not np.array_equal(model.predict(prob, img=tiny.images), before)


def test_the_first_batch_determines_all_shapes(tiny):
    model = nn.Model()
    hidden = model.batch_norm("img")
    with model.guard():
        hidden = layers.relu(hidden)
    loss = model.mean(model.softmax_with_cross_entropy(model.fc_layer(hidden, 3), "label"))
    model.backward(loss)
    model.sgd(0.1)
    assert hidden.shape is None
    tiny.fill(model)
    model.run()
    assert (hidden.shape, loss.shape) == ((-1, 8), ())
    assert [p.shape for p in model.parameters] == [(8,), (8,), (8, 3), (3,)]
    unknown = [v.name for v in model.program.global_block().vars.values() if v.shape is None]
    assert not unknown


def test_a_parameter_can_be_filled_before_the_first_batch(tiny):
    model, _ = tiny.make()
    model.fill("fc_0_w_param", np.zeros((8, 5), np.float32))
    model.fill("fc_1_w_param", np.zeros((5, 3), np.float32))
    tiny.fill(model)
    model.run()
    assert not np.array_equal(model.scope.var("fc_1_w_param").numpy(), np.zeros((5, 3)))
    assert np.abs(model.scope.var("fc_0_w_param").numpy()).max() < 1e-6
