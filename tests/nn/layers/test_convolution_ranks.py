"""Layers for sequences and volumes, and transposed convolutions; tests/peers compares values."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import layers

FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def make_x(rank, last=False, channels=4):
    sizes = (9, 8, 7)[:rank]
    shape = [None, *sizes, channels] if last else [None, channels, *sizes]
    return layers.data("x", shape)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_both_data_formats_give_the_same_results(rank):
    first, last = FORMATS[rank]
    results = []
    x = np.random.default_rng(0).normal(size=(2, 4, *(9, 8, 7)[:rank])).astype(np.float32)
    for data_format in (first, last):
        model = nn.Model()
        form = {"data_format": data_format}
        given = np.moveaxis(x, 1, -1) if data_format == last else x
        model.input("x", given.shape)
        h = getattr(model, f"conv{rank}d")("x", 6, 3, 2, "same", activation="relu", **form)
        h = getattr(model, f"conv{rank}d_transpose")(h, 3, 3, 2, "same", **form)
        h = getattr(model, f"max_pool{rank}d")(h, 2, **form)
        h = getattr(model, f"avg_pool{rank}d")(h, 2, count_include_pad=True, **form)
        model.initialize_parameters(seed=1, x=given)
        out = model.predict(h, x=given)
        results.append(np.moveaxis(out, -1, 1) if data_format == last else out)
    assert results[0].shape[:2] == (2, 3)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (4, 2), (2, 3), (1, 2), (5, 3)])
def test_same_padding_of_transposed_convolutions_multiplies_each_size_by_the_stride(
    programs, rank, kernel, stride
):
    layer = getattr(layers, f"conv{rank}d_transpose")
    out = layer(make_x(rank), 5, kernel, stride, "same")
    assert out.shape == (-1, 5, *(stride * size for size in (9, 8, 7)[:rank]))


@pytest.mark.parametrize(
    ("paddings", "expected"), [(1, (1, 1)), ([2], (2, 2)), ((2, 0), (2, 0)), ("same", (1, 1))]
)
def test_a_pair_of_paddings_pads_a_sequence_before_and_after(programs, paddings, expected):
    layers.conv1d(make_x(1), 5, 3, paddings=paddings)
    (op,) = programs[0].global_block().ops
    assert op.attr("paddings") == expected


def test_a_causal_convolution_does_not_depend_on_later_time_steps():
    model = nn.Model()
    h = model.conv1d("x", 2, 3, paddings=(2, 0))
    x = np.ones((1, 3, 6), np.float32)
    model.initialize_parameters(seed=1, x=x)
    before = model.predict(h, x=x)
    x[..., 4:] = 5
    after = model.predict(h, x=x)
    np.testing.assert_array_equal(before[..., :4], after[..., :4])
    assert (before[..., 4:] != after[..., 4:]).all()


def test_variables_of_a_transposed_convolution_are_named_after_the_layer(programs):
    out = layers.conv1d_transpose(make_x(1), 6, 3, groups=2, name="up", activation="tanh")
    shapes = {parameter.name: parameter.shape for parameter in programs[0].parameters()}
    assert shapes == {"up_w_param": (4, 3, 3), "up_b_param": (6,)}
    assert (out.name, out.shape) == ("up_out", (-1, 6, 11))


@pytest.mark.parametrize(
    ("arguments", "error", "rule"),
    [
        (
            {"kernel": (3, 3)},
            AttributeValueError,
            r"kernel must be an int of at least 1, got \(3, ",
        ),
        ({"strides": "2"}, AttributeTypeError, "strides must be an int of at least 1, got '2'"),
        ({"paddings": (1, 2, 3)}, AttributeValueError, "for both sides, or two: before, after"),
        (
            {"output_padding": -1},
            AttributeValueError,
            "output_padding must be an int of at least 0",
        ),
        (
            {"output_padding": 1, "paddings": "same"},
            AttributeValueError,
            "output_padding must be 0 with paddings='same'",
        ),
        ({"data_format": "NCHW"}, AttributeValueError, "data_format must be one of 'NCL', 'NLC'"),
        ({"groups": 3}, AttributeValueError, "groups must divide filters=5"),
        ({"groups": 5}, ShapeError, "groups must divide the 4 channels"),
    ],
)
def test_the_error_names_a_bad_argument_and_nothing_changes(
    programs, snapshot, arguments, error, rule
):
    values = {"input": make_x(1), "filters": 5, "kernel": 3} | arguments
    before = snapshot()
    with pytest.raises(error, match=f"conv1d_transpose: .*{rule}"):
        layers.conv1d_transpose(**values)
    assert snapshot() == before


def test_the_error_names_wrong_sizes_and_paddings_of_volumes(programs):
    x = make_x(3)
    with pytest.raises(AttributeValueError, match="three of them, for depth, height and width"):
        layers.conv3d(x, 2, (3, 3))
    with pytest.raises(AttributeValueError, match="or six: front, back, top, bottom, left, right"):
        layers.max_pool3d(x, 2, paddings=[1, 1, 1, 1])
    with pytest.raises(
        ShapeError, match=r"conv3d: input must be \[n, channels, depth, height, width\]"
    ):
        layers.conv3d(layers.data("image", [None, 3, 8, 8]), 2, 3)
    with pytest.raises(ShapeError, match=r"avg_pool1d: paddings='same' with strides=2 .* length"):
        layers.avg_pool1d(layers.data("words", [None, 3, None]), 3, 2, "same")


@pytest.mark.parametrize(
    ("layer", "shapes"),
    [
        (lambda x: layers.group_norm(x, 2), [(4,), (4,)]),
        (layers.instance_norm, [(4,), (4,)]),
        (lambda x: layers.instance_norm(x, scale=False), [(4,)]),
        (layers.rms_norm, [(8,)]),
        (lambda x: layers.rms_norm(x, begin_norm_axis=1), [(4, 9, 8)]),
        (lambda x: layers.rms_norm(x, scale=False), []),
        (layers.lrn, []),
    ],
)
def test_normalizations_have_parameters_for_their_axes(programs, layer, shapes):
    out = layer(make_x(2))
    assert out.shape == (-1, 4, 9, 8)
    assert [parameter.shape for parameter in programs[0].parameters()] == shapes


def test_the_error_names_a_bad_argument_of_a_normalization(programs, snapshot):
    x = make_x(2)
    before = snapshot()
    with pytest.raises(AttributeValueError, match="group_norm: groups must divide the 4 channels"):
        layers.group_norm(x, 3)
    with pytest.raises(
        ShapeError, match="rms_norm: input must have more than begin_norm_axis=4 axes"
    ):
        layers.rms_norm(x, begin_norm_axis=4)
    with pytest.raises(AttributeValueError, match="instance_norm: epsilon must be"):
        layers.instance_norm(x, epsilon=0)
    with pytest.raises(AttributeValueError, match="rms_norm: param_attr .* with scale=False"):
        layers.rms_norm(x, scale=False, param_attr=nn.initializer.Constant(2.0))
    assert snapshot() == before
    with pytest.raises(ShapeError, match=r"instance_norm: input must be \[n, channels, ...\]"):
        layers.instance_norm(layers.data("numbers", [3]))


def test_methods_called_with_input_names_match_symbols_on_variables():
    model = nn.Model()
    a, b = model.input("a", [None, 3]), model.input("b", [None, 3])
    pairs = [
        (model.add("a", "b"), a + b),
        (model.subtract("a", "b"), a - b),
        (model.multiply("a", "b"), a * b),
        (model.divide("a", "b"), a / b),
        (model.matmul("a", "b", transpose_y=True), a @ ow.ops.transpose(b, axes=[1, 0])),
        (model.mse("a", "b"), (a - b) ** 2),
        (model.unsqueeze("a", 1), a[:, None]),
        (model.squeeze(model.unsqueeze("a", 1), 1), a),
        (model.transpose("a", [1, 0]), ow.ops.transpose(a, axes=[1, 0])),
    ]
    feeds = {name: np.random.default_rng(1).random((2, 3), np.float32) + 1 for name in "ab"}
    for by_name, by_symbol in pairs:
        wanted = {n: feeds[n] for n in nn_inputs(model, by_name)}
        other = {n: feeds[n] for n in nn_inputs(model, by_symbol)}
        expected = feeds["a"] if by_symbol is a else model.predict(by_symbol, **other)
        np.testing.assert_allclose(model.predict(by_name, **wanted), expected, rtol=1e-6)


def nn_inputs(model, variable):
    """Return the names of the inputs that a variable depends on."""
    program = model.program.prune(variable)
    return list(ow.names_read_first(program.global_block().ops))
