"""Several losses, predictions and fetched variables, and the repr of a model."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    ProgramError,
    ShapeError,
    VariableNotFoundError,
)

X = np.random.default_rng(0).random((6, 4), np.float32)


def make(weights=(1.0, 0.5), optimize=True):
    """Return a model with two inputs, two outputs and two losses."""
    model = nn.Model()
    h = model.fc_layer(model.concat(["a", "b"]), 5, activation="tanh", name="h")
    first, second = model.fc_layer(h, 4, name="first"), model.fc_layer(h, 4, name="second")
    losses = [model.mean(model.mse(first, "a"), name="loss_a")]
    losses.append(model.mean(model.l1(second, "b"), name="loss_b"))
    model.backward(losses, weights=weights)
    if optimize:
        model.sgd(0.1)
    model.fill("a", X)
    model.fill("b", 2 * X)
    return model, first, second


def test_several_losses_are_summed_and_each_is_returned():
    model, *_ = make()
    total, first, second = model.run()
    np.testing.assert_allclose(total, first + 0.5 * second, rtol=1e-6)
    plain, *_ = make(weights=None)
    total, first, second = plain.run()
    np.testing.assert_allclose(total, first + second, rtol=1e-6)


def test_gradients_are_computed_from_the_weighted_sum():
    got = [
        make(weights)[0].run(fetch=["h_w_param_grad"])[0] for weights in ((1, 0), (0, 1), (2, 3))
    ]
    np.testing.assert_allclose(2 * got[0] + 3 * got[1], got[2], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("losses", "weights", "error", "rule"),
    [
        ([], None, AttributeValueError, "got 0 losses and 0 weights"),
        (["loss"], [1.0, 2.0], AttributeValueError, "got 1 losses and 2 weights"),
        ("loss", [1.0], AttributeValueError, "weights must come with a list of losses"),
        (["loss", 3], None, AttributeTypeError, "variable must be a variable of a program"),
        (["loss"], ["1"], AttributeTypeError, r"weights\[0\] must be a finite number"),
        (["los"], None, VariableNotFoundError, "'los'; did you mean 'loss"),
    ],
)
def test_the_error_names_bad_losses_and_nothing_changes(losses, weights, error, rule, everything):
    model = nn.Model()
    loss = model.mean(model.fc_layer("x", 2), name="loss")
    fixed = [loss if item == "loss" else item for item in losses] if losses != "loss" else loss
    before = everything(model.program)
    with pytest.raises(error, match=rule):
        model.backward(fixed, weights=weights)
    assert everything(model.program) == before
    assert len(model.backward([loss])) == 2


def test_several_variables_are_predicted_at_once():
    model, first, second = make()
    model.run()
    both = model.predict([first, "second_out"], a=X, b=X)
    assert isinstance(both, list)
    np.testing.assert_array_equal(both[0], model.predict(first, a=X, b=X))
    np.testing.assert_array_equal(both[1], model.predict(second, a=X, b=X))
    with pytest.raises(AttributeTypeError, match="Model.predict: variable must be a list"):
        model.predict(3, a=X)


def test_a_step_returns_its_fetches():
    models = [make()[0] for _ in range(2)]
    for _ in range(3):
        loss, weight = models[0].run(fetch=["loss_b_out", "first_w_param"])
        np.testing.assert_array_equal(weight, models[0].scope.var("first_w_param").numpy())
        assert loss == models[1].run()[2]
    assert models[0].run()[0] == models[1].run()[0]
    (kept,) = models[0].run(keep=True, fetch=["h_out"])
    np.testing.assert_array_equal(kept, models[0].scope.var("h_out").numpy())
    with pytest.raises(AttributeTypeError, match="Model.run: fetch must be a list of variables"):
        models[0].run(fetch="loss_b_out")


def test_a_step_without_a_loss_returns_its_fetches():
    model = nn.Model()
    out = model.fc_layer("x", 2)
    model.fill("x", X)
    assert model.run(fetch=[out])[0].shape == (6, 2)


def test_a_fetch_after_a_change_uses_the_changed_program():
    model = nn.Model()
    x = model.input("x", [None, 4])
    out = model.relu(x)
    model.fill("x", X)
    model.run(fetch=[out])
    model.run(fetch=[out, out])
    (block,) = model.program.blocks
    block.ops[0].type, definition = "tanh", ow.Operator("tanh", x="x", out="y").definition
    block.ops[0].definition = definition
    model.program.touch()
    for fetch in ([out], [out, out]):
        np.testing.assert_allclose(model.run(fetch=fetch)[-1], np.tanh(X), rtol=1e-5)


def test_the_learning_rate_can_be_read():
    model, *_ = make()
    assert model.learning_rate == 0.1
    model.run()
    assert model.learning_rate == 0.1
    model.set_learning_rate(0.025)
    assert model.learning_rate == 0.025
    with pytest.raises(ProgramError, match="Model.learning_rate: the model must have an optimizer"):
        _ = nn.Model().learning_rate


def test_a_learning_rate_set_before_the_first_step_is_used():
    model, *_ = make()
    model.set_learning_rate(0.3)
    model.run()
    assert model.learning_rate == 0.3
    model.initialize_parameters()
    assert model.learning_rate != 0.3


def test_the_repr_of_a_model_and_a_network_describes_it():
    model, *_ = make()
    assert repr(model) == (
        "Model(inputs: a float32, b float32; parameters: 6; operators: "
        f"{len(model.program.global_block().ops)}; loss: add_0; optimizer: SGD)"
    )
    model.run()
    assert repr(model).startswith("Model(inputs: a float32[?, 4], b float32[?, 4]; param")
    assert repr(nn.Model()) == (
        "Model(inputs: none; parameters: 0; operators: 0; loss: none; optimizer: none)"
    )
    operators = len(model.network.ops)
    assert repr(model.network) == f"Network({operators} operators, block 0)"
    assert repr(ow.Network()) == "Network(0 operators, separate operators)"


def test_models_that_share_a_scope_must_agree_on_a_parameter_shape():
    scope = ow.Scope()
    first, second = nn.Model(scope), nn.Model(scope)
    first.fc_layer("x", 1, name="head")
    first.initialize_parameters(x=X)
    scores = second.fc_layer("x", 3, name="head")
    rule = r"'head_w_param' must have shape \[.*3\], got \[4, 1\] in the scope"
    with pytest.raises(ShapeError, match=rf"Model.predict: {rule}"):
        second.predict(scores, x=X)
    with pytest.raises(ShapeError, match=rf"Model.initialize_parameters: {rule}"):
        second.initialize_parameters(x=X)
    assert scope.var("head_w_param").shape == (4, 1)
