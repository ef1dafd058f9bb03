"""Every argument has an effect, or is refused with a suggested fix."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError, ShapeError
from opwright_nn import initializer, layers, optimizer, regularizer


@pytest.fixture
def built(tiny):
    """A model with gradients and filled inputs, but without an optimizer."""
    model, _ = tiny.make(optimize=False)
    model.backward("mean_0_out")
    tiny.fill(model)
    model.initialize_parameters(seed=1)
    return model


def moved(tiny, model):
    """Return the names of the parameters that a step changes."""
    model.initialize_parameters(seed=1, img=tiny.images)
    before = tiny.parameters(model)
    model.run()
    after = tiny.parameters(model)
    return [name for name in before if not np.array_equal(before[name], after[name])]


@pytest.mark.parametrize("make", [lambda: optimizer.SGD(0.5), lambda: "adam"])
@pytest.mark.parametrize("by_name", [True, False])
def test_only_the_named_parameters_are_trained(tiny, built, make, by_name):
    chosen = [built.parameters[i] for i in (3, 0)]
    built.optimize(make(), [p.name for p in chosen] if by_name else chosen)
    assert moved(tiny, built) == ["fc_0_w_param", "fc_1_b_param"]


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (
            lambda m: m.optimize(optimizer.SGD(0.1), nonsense=3),
            AttributeValueError,
            "attributes require an optimizer type, got 'nonsense' for an object SGD",
        ),
        (
            lambda m: m.optimize("sgd", learning_rat=3),
            AttributeValueError,
            "got 'learning_rat'; did you mean 'learning_rate'",
        ),
        (
            lambda m: m.optimize("sgd", parameters=["fc_0_w_para"]),
            ProgramError,
            "parameters must have gradients .* got 'fc_0_w_para'; did you mean 'fc_0_w_param'",
        ),
        (
            lambda m: m.optimize("sgd", parameters=3),
            AttributeTypeError,
            "parameters must be a list of variables or names, got 3",
        ),
        (
            lambda m: m.optimize("sgd", parameters=[]),
            ProgramError,
            "there must be a parameter to train",
        ),
        (lambda m: m.adam(0.1, nonsense=3), TypeError, "nonsense"),
        (
            lambda m: setattr(m.parameters[0], "trainable", "no"),
            AttributeTypeError,
            "fc_0_w_param: trainable must be True or False, got 'no'",
        ),
    ],
)
def test_an_ineffective_argument_of_an_optimizer_is_refused(built, everything, call, error, rule):
    before = everything(built.program)
    with pytest.raises(error, match=rule):
        call(built)
    assert everything(built.program) == before


def test_a_second_optimizer_is_refused(tiny, built, everything):
    built.sgd(0.1)
    before = everything(built.program), everything(built.startup_program)
    message = "a model can have only one optimizer, got Adam after SGD"
    with pytest.raises(ProgramError, match=message):
        built.adam(0.1)
    assert (everything(built.program), everything(built.startup_program)) == before
    assert isinstance(built.optimizer, optimizer.SGD)


def test_a_parameter_frozen_after_backward_is_not_trained(tiny, built):
    built.parameters[0].trainable = False
    built.momentum(0.5)
    assert moved(tiny, built) == ["fc_0_b_param", "fc_1_w_param", "fc_1_b_param"]


def test_a_frozen_parameter_in_the_list_is_refused(built):
    built.parameters[0].trainable = False
    with pytest.raises(ProgramError, match="SGD: parameters must be trainable, got 'fc_0_w_"):
        built.optimize("sgd", parameters=["fc_0_w_param"])


def test_a_parameter_frozen_too_late_is_reported_by_the_next_step(built):
    built.sgd(0.1)
    built.run()
    built.parameters[0].trainable = False
    with pytest.raises(ProgramError, match="before the optimizer is appended, got trainable=False"):
        built.run()
    built.parameters[0].trainable = True
    built.run()


def test_a_parameter_that_becomes_trainable_too_late_is_reported(tiny):
    model, _ = tiny.make(optimize=False)
    model.parameters[0].trainable = False
    model.backward("mean_0_out")
    model.parameters[0].trainable = True
    with pytest.raises(ProgramError, match=r"before model.backward, got 'fc_0_w_param'"):
        model.sgd(0.1)
    model.parameters[0].trainable = False
    model.sgd(0.1)
    tiny.fill(model)
    model.run()
    model.parameters[0].trainable = True
    with pytest.raises(ProgramError, match=r"got trainable=True of 'fc_0_w_param' after it"):
        model.run()


SAME = {"name": "shared", "initializer": initializer.Constant(0.5), "learning_rate": 0.1}


@pytest.mark.parametrize(
    ("append", "error", "rule"),
    [
        (
            lambda x: layers.fc(x, 3, bias=False, bias_attr=initializer.Constant(1.0)),
            AttributeValueError,
            "fc: bias_attr must be left out with bias=False",
        ),
        (
            lambda x: layers.conv2d(
                layers.data("images", [None, 1, 8, 8]), 3, 3, bias=False, bias_attr=nn.ParamAttr()
            ),
            AttributeValueError,
            "conv2d: bias_attr must be left out with bias=False",
        ),
        (
            lambda x: layers.layer_norm(x, scale=False, param_attr=nn.ParamAttr()),
            AttributeValueError,
            "layer_norm: param_attr must be left out with scale=False",
        ),
        (
            lambda x: layers.layer_norm(x, bias=False, bias_attr=nn.ParamAttr()),
            AttributeValueError,
            "layer_norm: bias_attr must be left out with bias=False",
        ),
        (
            lambda x: layers.fc(x, 3, param_attr=nn.ParamAttr("shared", trainable=False)),
            AttributeValueError,
            "fc: the shared parameter 'shared' has trainable True, got False",
        ),
        (
            lambda x: layers.fc(x, 3, param_attr=nn.ParamAttr("shared", initializer.Constant(1))),
            AttributeValueError,
            r"'shared' has initializer Constant\(value=0.5\), got Constant\(value=1.0\)",
        ),
        (
            lambda x: layers.fc(x, 3, param_attr=nn.ParamAttr("shared", learning_rate=0.2)),
            AttributeValueError,
            "'shared' has learning_rate 0.1, got 0.2",
        ),
        (
            lambda x: layers.fc(
                x, 3, param_attr=nn.ParamAttr("shared", regularizer=regularizer.L2(0.1))
            ),
            AttributeValueError,
            r"'shared' has regularizer None, got L2\(0.1\)",
        ),
        (
            lambda x: layers.data("fc_0_out", [None, 3]),
            ProgramError,
            "data: the name must not belong .* got Variable.'fc_0_out'",
        ),
    ],
)
def test_an_ineffective_argument_of_a_layer_is_refused(programs, snapshot, append, error, rule):
    x = layers.data("x", [None, 8])
    layers.fc(x, 3, param_attr=nn.ParamAttr(**SAME))
    layers.data("images", [None, 1, 8, 8])
    before = snapshot()
    with pytest.raises(error, match=rule):
        append(x)
    assert snapshot() == before


def test_parameters_are_shared_only_with_equal_descriptions_or_by_name_alone(programs):
    x = layers.data("x", [None, 8])
    for attr in (nn.ParamAttr(**SAME), nn.ParamAttr("shared"), nn.ParamAttr(**SAME)):
        layers.fc(x, 3, bias=False, param_attr=attr)
    assert [p.name for p in programs[0].parameters()] == ["shared"]


def test_a_shape_declared_after_the_use_of_the_input_is_refused():
    model = nn.Model()
    model.fc_layer("x", 3)
    with pytest.raises(ShapeError, match=r"data: 'x' must be declared before .* got shape \[\?, 8"):
        model.input("x", [None, 8])
    assert model.input("x").shape is None


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"optimize": {"lr": 0.1}}, "optimize of 'w' must be .*, got {'lr': 0.1}"),
        ({"optimize": "adam"}, "optimize of 'w' must be .*, got 'adam'"),
        ({"optimize": {"learning_rate": -1}}, "factor of 'w' must be a finite number"),
        ({"regularizer": 0.1}, "regularizer of 'w' must be a Regularizer or None, got 0.1"),
    ],
)
def test_wrong_training_options_of_a_parameter_are_refused(programs, options, rule):
    block = programs[0].global_block()
    w = block.create_parameter("w", [8, 3], **options)
    loss = layers.mean(ow.ops.matmul(layers.data("x", [None, 8]), w))
    with pytest.raises((AttributeValueError, AttributeTypeError), match=f"SGD: .*{rule}"):
        optimizer.SGD(0.1).minimize(loss)
