"""Recurrent layers: names, shapes, lengths, errors; tests/peers compares values with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, DtypeError, ShapeError
from opwright_nn import layers

RECURRENT = {"lstm": 4, "gru": 3, "rnn": 1}


def make_x(shape=(None, 5, 4), dtype="float32"):
    return layers.data("x", shape=shape, dtype=dtype)


@pytest.mark.parametrize(("name", "gates"), RECURRENT.items())
def test_a_single_layer_has_weights_for_all_of_its_gates(programs, name, gates):
    out, *states = getattr(layers, name)(make_x(), 6)
    shapes = {parameter.name: parameter.shape for parameter in programs[0].parameters()}
    assert shapes == {
        f"{name}_0_w_ih_param": (gates * 6, 4),
        f"{name}_0_w_hh_param": (gates * 6, 6),
        f"{name}_0_b_ih_param": (gates * 6,),
        f"{name}_0_b_hh_param": (gates * 6,),
    }
    assert (out.name, out.shape) == (f"{name}_0_out", (-1, 5, 6))
    assert [state.shape for state in states] == [(1, -1, 6)] * (2 if name == "lstm" else 1)


def test_layers_and_directions_are_numbered(programs):
    out, h_n, c_n = layers.lstm(make_x(), 6, num_layers=2, bidirectional=True, bias=False, name="m")
    shapes = {parameter.name: parameter.shape for parameter in programs[0].parameters()}
    assert shapes == {
        f"m_{layer}{reverse}_w_{kind}_param": (24, 6 if kind == "hh" else 4 + 8 * layer)
        for layer in range(2)
        for reverse in ("", "_reverse")
        for kind in ("ih", "hh")
    }
    assert (out.shape, h_n.shape, c_n.shape) == ((-1, 5, 12), (4, -1, 6), (4, -1, 6))


def test_initial_weights_are_uniform_within_one_over_the_square_root_of_the_size(programs):
    layers.lstm(make_x(), 64)
    scope = ow.Scope()
    ow.Network(programs[1].global_block()).run(scope)
    weight = scope.var("lstm_0_w_hh_param").numpy()
    assert np.abs(weight).max() <= 1 / 8
    assert weight.std() == pytest.approx(1 / 8 / np.sqrt(3), rel=0.05)


def test_elements_beyond_a_length_have_no_effect():
    model = nn.Model()
    out, h_n = model.gru("x", 3, bidirectional=True, lengths="lengths")
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    model.initialize_parameters(seed=1, x=x)
    lengths = np.array([5, 2])
    before, last = (model.predict(v, x=x, lengths=lengths) for v in (out, h_n))
    x[1, 2:] = 100
    np.testing.assert_array_equal(model.predict(out, x=x, lengths=lengths), before)
    np.testing.assert_array_equal(before[1, 2:], 0)
    np.testing.assert_array_equal(last[0, 1], before[1, 1, :3])
    np.testing.assert_array_equal(last[1, 1], before[1, 0, 3:])


@pytest.mark.parametrize("name", RECURRENT)
def test_a_model_learns_from_sequences_whose_width_the_first_batch_determines(name):
    model = nn.Model()
    _, h_n, *_ = getattr(model, name)("x", 8)
    scores = model.fc_layer(h_n[-1], 2)
    model.backward(model.softmax_with_cross_entropy(scores, "label", reduction="mean"))
    model.adam(0.02)
    model.initialize_parameters(seed=3)
    x = np.random.default_rng(0).normal(size=(32, 6, 3)).astype(np.float32)
    model.fill("x", x)
    model.fill("label", (x[:, :, 0].sum(axis=1) > 0).astype(np.int64))
    losses = [model.run()[0] for _ in range(60)]
    assert losses[-1] < 0.4 * losses[0]


def test_a_saved_recurrent_model_continues_bitwise_identically(tmp_path):
    def make():
        model = nn.Model()
        out, *_ = model.lstm("x", 4, num_layers=2)
        model.backward(model.mean(out * out))
        model.adam(0.1)
        model.fill("x", np.ones((2, 3, 5), np.float32))
        return model

    first = make()
    first.run()
    first.save(tmp_path)
    second = make()
    second.resume(tmp_path)
    assert first.run()[0] == second.run()[0]


@pytest.mark.parametrize(
    ("arguments", "error", "rule"),
    [
        ({"input": "x"}, AttributeTypeError, "input must be a variable"),
        ({"size": 0}, AttributeValueError, "size must be an int of at least 1, got 0"),
        ({"num_layers": 0}, AttributeValueError, "num_layers must be an int of at least 1"),
        ({"bidirectional": 2}, AttributeTypeError, "bidirectional must be True or False"),
        ({"batch_first": None}, AttributeTypeError, "batch_first must be True or False"),
        ({"h0": 0}, AttributeTypeError, "h0 must be a variable"),
        ({"lengths": [3]}, AttributeTypeError, "lengths must be a variable"),
        ({"param_attr": nn.ParamAttr("w")}, AttributeValueError, "param_attr must not have a name"),
        (
            {"bias": False, "bias_attr": nn.initializer.Constant()},
            AttributeValueError,
            "bias_attr must be left out with bias=False",
        ),
        ({"activation": "sigmoid"}, AttributeValueError, "activation must be one of 'tanh'"),
    ],
)
def test_the_error_names_a_bad_argument_and_nothing_changes(
    programs, snapshot, arguments, error, rule
):
    values = {"input": make_x(), "size": 6} | arguments
    before = snapshot()
    with pytest.raises(error, match=f"rnn: {rule}"):
        layers.rnn(**values)
    assert snapshot() == before


def test_an_input_with_two_axes_or_an_integer_dtype_is_refused(programs):
    with pytest.raises(
        ShapeError, match=r"gru: input must have 3 axes.* got \[\?, 4\]; an embedding"
    ):
        layers.gru(make_x((None, 4)), 6)
    with pytest.raises(DtypeError, match="gru: its input, and so its parameters"):
        layers.gru(layers.data("words", [None, 5, 4], "int64"), 6)
