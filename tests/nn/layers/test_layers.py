"""Layer functions: appended operators, names, and errors that leave the program unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    DtypeError,
    ShapeError,
)
from opwright_nn import layers


def make_x(shape=(None, 8), dtype="float32"):
    return layers.data("x", shape=shape, dtype=dtype)


def types(program):
    return [op.type for op in program.global_block().ops]


def test_data_declares_an_input_with_the_given_shape(programs):
    x = layers.data("x", shape=[None, 1, -1, np.int64(28)], dtype=np.float64)
    assert (x.name, x.shape, x.dtype, x.is_data) == ("x", (-1, 1, -1, 28), "float64", True)
    assert layers.data("unknown").shape is None


def test_fc_creates_parameters_that_match_the_input_width_and_are_named_after_the_layer(programs):
    main, startup = programs
    out = layers.fc(make_x((None, 2, 3)), 5)
    assert (out.name, out.shape, out.dtype) == ("fc_0_out", (-1, 5), "float32")
    shapes = {parameter.name: parameter.shape for parameter in main.parameters()}
    assert shapes == {"fc_0_w_param": (6, 5), "fc_0_b_param": (5,)}
    filled = {name: var.shape for name, var in startup.global_block().vars.items()}
    assert filled == shapes
    assert all(var.persistable for var in startup.global_block().vars.values())


def test_variables_are_named_after_a_numbered_or_given_layer_name(programs):
    main, _ = programs
    layers.fc(layers.fc(layers.fc(make_x(), 5), 5), 2, name="head", bias=False)
    names = " ".join(parameter.name for parameter in main.parameters())
    assert names == "fc_0_w_param fc_0_b_param fc_1_w_param fc_1_b_param head_w_param"


def test_fc_keeps_leading_axes(programs):
    out = layers.fc(make_x((None, 7, 2, 3)), 5, num_flatten_dims=2)
    assert out.shape == (-1, 7, 5)
    assert programs[0].parameters()[0].shape == (6, 5)


def test_fc_computes_in_the_dtype_of_its_input(programs):
    assert layers.fc(make_x(dtype="float64"), 5, activation="softplus").dtype == "float64"
    assert {parameter.dtype for parameter in programs[0].parameters()} == {"float64"}


def test_an_activation_is_an_attribute_of_fc_or_a_following_operator(programs):
    main, _ = programs
    layers.fc(make_x(), 5, activation="sigmoid")
    assert types(main) == ["fc"]
    out = layers.fc(make_x(), 5, activation="gelu", name="g")
    assert types(main) == ["fc", "fc", "gelu"]
    assert out.name == "g_out"


@pytest.mark.parametrize(
    ("activation", "error", "rule"),
    [
        ("sigmiod", AttributeValueError, "activation must be an operator .*'sigmoid'"),
        ("add", AttributeValueError, "activation must be an operator from x to out.* got 'add'"),
        ("transpose_me", AttributeValueError, "activation must be an operator"),
        ("reshape", AttributeValueError, "activation .* without required attributes"),
        (3, AttributeTypeError, "activation must be a string, got 3"),
    ],
)
def test_an_invalid_activation_is_refused(programs, activation, error, rule):
    with pytest.raises(error, match=f"fc: {rule}"):
        layers.fc(make_x(), 5, activation=activation)


@pytest.mark.parametrize(
    ("arguments", "error", "rule"),
    [
        ({"input": "x"}, AttributeTypeError, "input must be a variable of a program, got 'x'"),
        ({"size": 0}, AttributeValueError, "size must be an int of at least 1, got 0"),
        ({"size": 5.0}, AttributeTypeError, "size must be an int of at least 1, got 5.0"),
        ({"size": True}, AttributeTypeError, "size must be an int"),
        ({"bias": 1}, AttributeTypeError, "bias must be True or False, got 1"),
        ({"num_flatten_dims": 0}, AttributeValueError, "num_flatten_dims must be"),
        ({"num_flatten_dims": 2}, ShapeError, "input must have more than num_flatten_dims=2 axes"),
        ({"name": ""}, AttributeValueError, "name must be a string that is not empty"),
        ({"name": 3}, AttributeTypeError, "name must be a string"),
        ({"param_attr": "w"}, AttributeTypeError, "param_attr must be a ParamAttr, an init"),
        ({"bias_attr": 0.0}, AttributeTypeError, "bias_attr must be a ParamAttr, an init"),
    ],
)
def test_the_error_names_a_bad_argument_of_fc_and_nothing_changes(
    programs, snapshot, arguments, error, rule
):
    values = {"input": make_x(), "size": 5} | arguments
    before = snapshot()
    with pytest.raises(error, match=f"fc: {rule}"):
        layers.fc(**values)
    assert snapshot() == before


def test_a_layer_that_its_operator_refuses_leaves_the_program_unchanged(programs, snapshot):
    x = layers.data("x", shape=[None, 8], dtype="int64")
    before = snapshot()
    with pytest.raises(DtypeError, match=r"fc: its input.* must have a float dtype, got int64"):
        layers.fc(x, 5)
    assert snapshot() == before
    flag = layers.data("flag", shape=[None, 8], dtype="bool")
    before = snapshot()
    with pytest.raises(DtypeError, match="relu"):
        layers.relu(flag)
    assert snapshot() == before


def test_an_unknown_width_is_refused_outside_a_model(programs):
    with pytest.raises(ShapeError, match=r"fc: the shape of fc_0_w_param .* got \[\?, 5\]; pass"):
        layers.fc(layers.data("x", shape=[None, None]), 5)
    assert not programs[0].parameters()


def test_a_layer_that_is_applied_twice_shares_its_parameters(programs):
    first = layers.fc(make_x(), 5, name="head")
    second = layers.fc(layers.relu(make_x(), name="top"), 5, name="head")
    assert [p.name for p in programs[0].parameters()] == ["head_w_param", "head_b_param"]
    assert (first.name, second.name) == ("head_out", "head_out_0")
    assert layers.relu(make_x(), name="top").name == "top_out_0"
    with pytest.raises(ShapeError, match=r"'head_w_param' must be .*; layers with the same name"):
        layers.fc(make_x(), 6, name="head")


def test_a_default_name_never_equals_a_name_that_a_user_has_given(programs):
    layers.fc(make_x(), 5, name="fc_0")
    layers.fc(make_x(), 5)
    assert [p.name for p in programs[0].parameters()][2:] == ["fc_1_w_param", "fc_1_b_param"]


def test_a_normalization_that_is_applied_twice_shares_its_statistics(programs):
    for _ in range(2):
        layers.batch_norm(make_x(), name="a")
    states = [v.name for v in programs[0].global_block().vars.values() if v.persistable]
    assert states == ["a_w_param", "a_b_param", "a_mean", "a_variance"]


def test_a_parameter_can_be_shared_by_name(programs):
    main, startup = programs
    shared = nn.ParamAttr(name="shared")
    hidden = layers.fc(make_x(), 8, bias=False, param_attr=shared)
    layers.fc(hidden, 8, bias=False, param_attr=shared)
    assert [parameter.name for parameter in main.parameters()] == ["shared"]
    assert len(startup.global_block().ops) == 1
    with pytest.raises(ShapeError, match=r"shared parameter 'shared' must be \[8, 9\], got \[8, 8"):
        layers.fc(hidden, 9, bias=False, param_attr=shared)


def test_param_attr_options_are_applied_to_the_parameter(programs):
    regularizer = nn.regularizer.L2(0.1)
    attr = nn.ParamAttr("w", nn.initializer.Constant(2.0), 0.5, regularizer, trainable=False)
    layers.fc(make_x(), 5, bias=False, param_attr=attr)
    (parameter,) = programs[0].parameters()
    assert parameter.name == "w"
    assert not parameter.trainable
    assert parameter.regularizer is regularizer
    assert parameter.optimize == {"learning_rate": 0.5}
    (op,) = programs[1].global_block().ops
    assert (op.type, op.attr("value")) == ("fill", 2.0)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("name", 3, AttributeTypeError),
        ("initializer", 0.1, AttributeTypeError),
        ("learning_rate", -1.0, AttributeValueError),
        ("learning_rate", "1", AttributeTypeError),
        ("regularizer", 0.1, AttributeTypeError),
        ("trainable", 0, AttributeTypeError),
    ],
)
def test_the_error_names_a_bad_field_of_param_attr(field, value, error):
    with pytest.raises(error, match=f"ParamAttr: {field} must be"):
        nn.ParamAttr(**{field: value})


@pytest.mark.parametrize(
    ("layer", "arguments"),
    [
        ("relu", {}),
        ("leaky_relu", {"alpha": 0.2}),
        ("elu", {"alpha": 0.5}),
        ("gelu", {"approximate": "tanh"}),
        ("hard_sigmoid", {"alpha": 1 / 6}),
        ("hard_swish", {}),
        ("mish", {}),
        ("relu6", {}),
        ("selu", {}),
        ("silu", {}),
        ("softplus", {}),
        ("sigmoid", {}),
        ("tanh", {}),
        ("softmax", {"axis": 0}),
        ("log_softmax", {"axis": 0}),
        ("lrn", {"size": 3, "bias": 2.0}),
    ],
)
def test_activation_layer_appends_its_operator(programs, layer, arguments):
    out = getattr(layers, layer)(make_x(), **arguments)
    (op,) = programs[0].global_block().ops
    assert (op.type, out.name, out.shape) == (layer, f"{layer}_0_out", (-1, 8))
    for name, value in arguments.items():
        assert op.attr(name) == value
    with pytest.raises(AttributeTypeError, match=f"{layer}: input must be a variable"):
        getattr(layers, layer)(np.zeros(3))


def test_losses_return_a_value_for_each_row(programs):
    x = layers.softmax(make_x())
    y = layers.data("y", shape=[None, 1], dtype="int64")
    soft = layers.data("soft", shape=[None, 8])
    assert layers.cross_entropy(x, y).shape == (-1, 1)
    assert layers.cross_entropy(x, soft, soft_label=True).shape == (-1, 1)
    assert layers.softmax_with_cross_entropy(x, y, ignore_index=3).shape == (-1, 1)
    assert layers.sigmoid_cross_entropy_with_logits(x, soft).shape == (-1, 8)
    assert layers.mean(x).shape == ()
    assert layers.mean(x, axis=1, keepdims=True).shape == (-1, 1)
    assert layers.accuracy(x, y, k=2).shape == (1,)


def test_normalization_creates_parameters_for_the_channels_or_the_normalized_axes(programs):
    main, startup = programs
    x = make_x((None, 3, 4, 5))
    assert layers.batch_norm(x, activation="relu").shape == (-1, 3, 4, 5)
    assert layers.layer_norm(x, begin_norm_axis=2).shape == (-1, 3, 4, 5)
    shapes = {name: var.shape for name, var in startup.global_block().vars.items()}
    assert shapes == {
        "batch_norm_0_w_param": (3,),
        "batch_norm_0_b_param": (3,),
        "batch_norm_0_mean": (3,),
        "batch_norm_0_variance": (3,),
        "layer_norm_0_w_param": (4, 5),
        "layer_norm_0_b_param": (4, 5),
    }
    assert [parameter.name for parameter in main.parameters()] == [
        "batch_norm_0_w_param",
        "batch_norm_0_b_param",
        "layer_norm_0_w_param",
        "layer_norm_0_b_param",
    ]


def test_layer_norm_works_without_scale_and_bias(programs):
    layers.layer_norm(make_x(), scale=False, bias=False)
    assert not programs[0].parameters()


@pytest.mark.parametrize("layer", [layers.batch_norm, layers.layer_norm])
def test_normalization_of_a_vector_is_refused(programs, layer):
    with pytest.raises(ShapeError, match=f"{layer.__name__}: input must"):
        layer(make_x((None,)))
    assert not programs[0].parameters()


def test_embedding_reads_rows_of_a_table(programs):
    index = layers.data("i", shape=[None, 7], dtype="int64")
    assert layers.embedding(index, size=(100, 16), padding_index=0).shape == (-1, 7, 16)
    assert programs[0].parameters()[0].shape == (100, 16)


@pytest.mark.parametrize("size", [[100], [0, 16], [100, 16, 1]])
def test_the_table_of_an_embedding_must_have_rows_and_columns(programs, size):
    index = layers.data("i", shape=[None], dtype="int64")
    with pytest.raises(AttributeValueError, match=r"embedding: size must be \[rows, columns\]"):
        layers.embedding(index, size)


def test_reshaping_keeps_every_element(programs):
    x = make_x((None, 3, 4))
    assert layers.flatten(x).shape == (-1, 12)
    assert layers.flatten(x, axis=0).shape == (-1,)
    assert layers.flatten(x, axis=2).shape == (-1, 3, 4)
    assert layers.flatten(x, axis=3).shape == (-1, 3, 4, 1)
    assert layers.reshape(x, [0, 4, None]).shape == (-1, 4, 3)
    assert layers.concat([x, x], axis=-1).shape == (-1, 3, 8)


def test_reshape_accepts_computed_sizes(programs):
    lengths = ow.ops.shape(make_x((None, None, 4)))
    assert layers.reshape(layers.data("ranks"), [lengths[0], 2, lengths[1], -1]).shape is None
    assert layers.reshape(make_x((None, None, 4)), [lengths[0], 4, None]).shape == (-1, 4, -1)
    assert layers.reshape(make_x((None, None, 4)), lengths).shape == (-1, -1, -1)


def test_flatten_of_unknown_dimensions_is_resolved_at_run_time(programs):
    assert layers.flatten(make_x((None, None, 4))).shape == (-1, -1)
    assert types(programs[0]) == ["flatten"]


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (layers.concat, AttributeTypeError, r"concat: input must be a list of variables"),
        (
            lambda x: layers.concat([x, "x"]),
            AttributeTypeError,
            r"concat: input\[1\] must be a var",
        ),
        (lambda x: layers.concat([x], axis=0.5), AttributeTypeError, "concat: axis must be an int"),
        (lambda x: layers.reshape(x, [-1, None]), AttributeValueError, "shape may hold one -1"),
        (lambda x: layers.reshape(x, [-2]), AttributeValueError, "reshape: shape must be a list"),
        (lambda x: layers.reshape(x, 8), AttributeTypeError, "reshape: shape must be a list"),
        (lambda x: layers.flatten(x, axis=-1), AttributeValueError, "flatten: axis must be an int"),
        (
            lambda x: layers.flatten(x, axis=3),
            ShapeError,
            "flatten: input must have at least axis=3",
        ),
        (lambda x: layers.dropout(x, 1.0), AttributeValueError, r"probability .*\[0, 1\), got 1.0"),
        (lambda x: layers.dropout(x, training=1), AttributeTypeError, "dropout: training must be"),
        (lambda x: layers.mean(x, axis="0"), AttributeTypeError, "mean: axis must be a list"),
        (lambda x: layers.mean("x"), AttributeTypeError, "mean: input must be a variable"),
        (lambda x: layers.accuracy(x, x, k=0), AttributeValueError, "accuracy: k must be an int"),
        (lambda x: layers.cross_entropy(x, "y"), AttributeTypeError, "cross_entropy: label must"),
        (lambda x: layers.batch_norm(x, momentum=2), AttributeValueError, r"momentum .* \[0, 1\]"),
        (lambda x: layers.layer_norm(x, epsilon=0), AttributeValueError, "epsilon must be"),
        (lambda x: layers.layer_norm(x, scale=None), AttributeTypeError, "scale must be True or"),
        (lambda x: layers.data("", [1]), AttributeValueError, "data: name must be a string"),
        (lambda x: layers.data("z", [-3]), AttributeValueError, "data: shape must be a list"),
        (lambda x: layers.data("z", [1], "float33"), DtypeError, "data: .*did you mean 'float32'"),
        (lambda x: layers.data("x", [9]), ShapeError, "'x'.* exists with another shape"),
    ],
)
def test_the_error_names_a_bad_argument_of_a_layer_and_nothing_changes(
    programs, snapshot, call, error, rule
):
    x = make_x()
    before = snapshot()
    with pytest.raises(error, match=rule):
        call(x)
    assert snapshot() == before


def test_dropout_is_active_by_default_and_skipped_in_inference(programs):
    main, _ = programs
    x = make_x()
    hidden = layers.fc(layers.batch_norm(layers.dropout(x, 0.5)), 4)
    layers.mean(hidden)
    assert [op.attr("training") for op in main.global_block().ops[:2]] == [True, True]
    pruned = nn.inference_program(main, hidden)
    assert types(pruned) == ["dropout", "batch_norm", "fc"]
    assert [op.attr("training") for op in pruned.global_block().ops[:2]] == [False, False]
    assert not pruned.global_block().ops[0].input("step")
    assert [op.attr("training") for op in main.global_block().ops[:2]] == [True, True]


def test_name_guard_prefixes_layer_names(programs):
    with ow.name_guard("encoder"):
        layers.fc(make_x(), 4)
    assert [parameter.name for parameter in programs[0].parameters()] == [
        "encoder/fc_0_w_param",
        "encoder/fc_0_b_param",
    ]
