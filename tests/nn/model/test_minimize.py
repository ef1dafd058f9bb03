"""Model.minimize appends gradients and updates in one call; Model.l2 is a term of a loss."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, ProgramError, VariableNotFoundError


def make(images=None):
    model = nn.Model()
    pixels = "img" if images is None else model.input("img", [None, images.shape[1]])
    scores = model.fc_layer(pixels, size=3)
    loss = model.mean(model.softmax_with_cross_entropy(scores, "label"))
    return model, loss


def step(model, tiny):
    model.initialize_parameters(seed=1, img=tiny.images)
    before = tiny.parameters(model)
    tiny.fill(model)
    (value,) = model.run()
    return before, float(value), tiny.parameters(model)


@pytest.mark.parametrize("known", [True, False])
def test_minimize_equals_backward_and_optimize(tiny, known):
    images = tiny.images if known else None
    model, loss = make(images)
    pairs = model.minimize(loss, nn.optimizer.SGD(0.5))
    other, other_loss = make(images)
    other.backward(other_loss)
    other.optimize(nn.optimizer.SGD(0.5))
    assert [p.name for p, _ in pairs] == [p.name for p, _ in other.param_grads]
    (_, value, after), (_, other_value, other_after) = step(model, tiny), step(other, tiny)
    assert value == other_value
    for name, array in after.items():
        np.testing.assert_array_equal(array, other_after[name])


@pytest.mark.parametrize("known", [True, False])
def test_l2_adds_the_squares_of_the_parameters(tiny, known):
    images = tiny.images if known else None
    plain, loss = make(images)
    plain.minimize(loss, nn.optimizer.SGD(0.5))
    model, loss = make(images)
    model.minimize(loss + 0.25 * model.l2(), nn.optimizer.SGD(0.5))
    before, value, after = step(model, tiny)
    _, plain_value, plain_after = step(plain, tiny)
    squares = sum(float(np.sum(array.astype(np.float64) ** 2)) for array in before.values())
    assert value == pytest.approx(plain_value + 0.25 * squares, rel=1e-5)
    for name, array in after.items():  # the derivative of 0.25 p ** 2 is p / 2
        expected = plain_after[name] - 0.5 * 0.5 * before[name]
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)


def test_l2_accepts_patterns(tiny):
    model, _ = make()
    penalty = model.l2("*_w_param")
    model.initialize_parameters(seed=1, img=tiny.images)
    weight = tiny.parameters(model)["fc_0_w_param"].astype(np.float64)
    assert float(model.predict(penalty)) == pytest.approx(np.sum(weight**2), rel=1e-5)
    with pytest.raises(
        VariableNotFoundError, match="Model.l2: each name.*got 'fc_0_w_parm'.*w_param"
    ):
        model.l2("fc_0_w_parm")


def test_l2_excludes_frozen_parameters_by_default(tiny):
    model, _ = make()
    model.freeze("*_w_param")
    model.initialize_parameters(seed=1, img=tiny.images)
    assert float(model.predict(model.l2())) == 0.0  # biases begin at 0


def test_the_error_for_l2_without_a_parameter_asks_for_layers_first():
    with pytest.raises(ProgramError, match="Model.l2: .*got none; append the layers first"):
        nn.Model().l2()


def test_a_failed_minimize_leaves_the_model_unchanged(everything):
    model, loss = make()
    before = everything(model.program), everything(model.startup_program)
    with pytest.raises(AttributeTypeError, match="optimizer must be an Optimizer, got 3"):
        model.minimize(loss, 3)
    assert (everything(model.program), everything(model.startup_program)) == before
    assert model.minimize(loss, "sgd")


def test_errors_raised_by_minimize_and_l2_suggest_the_intended_argument():
    model, loss = make()
    with pytest.raises(AttributeTypeError, match=r"Model.minimize: .*'optimiser'.*optimizer"):
        model.minimize(loss, optimiser="sgd")
    with pytest.raises(AttributeTypeError, match=r"Model.l2: .*'parameter'.*parameters"):
        model.l2(parameter="fc_0_w_param")
