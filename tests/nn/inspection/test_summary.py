"""nn.summary: the operators and the cost of each layer in a network."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, FeedError, ShapeError
from opwright_nn import layers
from opwright_std.flops import FLOPS, count_flops


def make():
    model = nn.Model()
    pixels = model.input("pixels", [None, 1, 8, 8])
    h = model.conv2d(pixels, filters=16, kernel=3, paddings="same", activation="relu")
    scores = model.fc_layer(model.flatten(model.max_pool2d(h, kernel=2)), size=10)
    label = model.input("label", [None, 1], "int64")
    loss = model.mean(model.softmax_with_cross_entropy(scores, label))
    return model, loss


def test_a_layer_has_its_shape_parameters_memory_and_operations():
    model, _ = make()
    found = {layer.name: layer for layer in nn.summary(model, batch_size=4).layers}
    conv = found["conv2d_0"]
    assert conv.op_types == ("conv2d", "relu")
    assert conv.output_shape == (4, 16, 8, 8)
    assert conv.parameters == 16 * 9 + 16
    assert conv.parameter_bytes == 4 * conv.parameters
    assert conv.output_bytes == 2 * 4 * (4 * 16 * 8 * 8)  # before and after relu
    assert conv.flops == 2 * (4 * 16 * 8 * 8) * 9
    assert found["fc_0"].flops == 2 * 4 * 256 * 10
    assert found["max_pool2d_0"].flops == 0
    assert found["max_pool2d_0"].output_bytes == 4 * 4 * 16 * 4 * 4  # without the index


def test_gradients_and_updates_are_omitted():
    model, loss = make()
    before = nn.summary(model)
    model.minimize(loss, nn.optimizer.Adam(1e-3))
    assert nn.summary(model) == before
    assert before.parameters == 16 * 9 + 16 + 2560 + 10
    assert before.parameter_bytes == 4 * before.parameters
    assert before.flops == 2 * 16 * 64 * 9 + 2 * 2560
    assert before.is_complete


def test_frozen_parameters_are_not_trainable():
    model, _ = make()
    model.freeze("conv2d_0_*")
    assert nn.summary(model).trainable_parameters == 2570


def test_a_shared_parameter_is_counted_once():
    model = nn.Model()
    x = model.input("x", [None, 6])
    shared = nn.ParamAttr(name="shared")
    for _ in range(2):
        x = model.fc_layer(x, size=6, bias=False, param_attr=shared)
    assert [layer.parameters for layer in nn.summary(model).layers] == [36, 0]


def test_a_program_can_be_summarized(programs):
    main, _ = programs
    x = layers.data("x", [None, 3])
    ow.ops.exp(layers.fc(x, size=2, name="head"))
    found = nn.summary(main, batch_size=5)
    assert [(layer.name, layer.output_shape) for layer in found.layers] == [
        ("head", (5, 2)),
        ("exp_0", (5, 2)),
    ]
    assert main.global_block().var("x").shape == (-1, 3)


def test_nested_layers_form_one_row(programs):
    main, _ = programs
    x = layers.data("x", [None, 12, 32])
    layers.transformer_encoder_block(layers.fc(x, size=32, num_flatten_dims=2), heads=4, name="enc")
    found = nn.summary(main).layers
    assert [layer.name for layer in found] == ["fc_0", "enc"]
    products = 2 * 12 * (32 * 96 + 32 * 32 + 2 * 32 * 128)
    assert found[1].flops == products + 2 * (2 * 4 * 12 * 12 * 8)


def test_unknown_shapes_are_none_and_reported(tiny):
    model, _ = tiny.make()
    unknown = nn.summary(model)
    assert not unknown.is_complete
    assert unknown.layers[0].parameters is None
    assert "at least" in str(unknown)
    assert "?: not known before the first batch" in str(unknown)
    tiny.fill(model)
    model.run()
    settled = nn.summary(model)
    assert settled.is_complete
    assert settled.parameters == 8 * 5 + 5 + 5 * 3 + 3


def test_given_shapes_replace_unknown_axes(programs):
    main, _ = programs
    ow.ops.matmul(layers.data("x", [None, None, 4]), layers.data("w", [4, 3]))
    assert nn.summary(main).layers[0].flops is None
    assert nn.summary(main, shapes={"x": [2, 7, 4]}).flops == 2 * 2 * 7 * 4 * 3
    with pytest.raises(ShapeError, match=r"summary: the shape of 'x' must fit \[\?, \?, 4\], got"):
        nn.summary(main, shapes={"x": [2, 7, 5]})
    with pytest.raises(FeedError, match=r"summary: shapes must name inputs, got 'X'.*'x'"):
        nn.summary(main, shapes={"X": [2, 7, 4]})


def test_the_table_has_a_row_for_each_layer_and_the_totals():
    text = str(nn.summary(make()[0], batch_size=64)).splitlines()
    assert text[0].split() == ["layer", "operators", "output", "parameters", "memory", "FLOPs"]
    assert " ".join(text[1].split()) == ("conv2d_0 conv2d, relu [64, 16, 8, 8] 160 512.0 KiB 1.2 M")
    assert text[-3] == "parameters: 2,730 (10.7 KiB), 2,730 trainable"
    assert text[-2] == "outputs of a batch of 64: 642.8 KiB"
    assert text[-1] == "products and convolutions: 1.5 M FLOPs"


def test_errors_for_wrong_arguments_suggest_the_right_arguments():
    with pytest.raises(AttributeTypeError, match="summary: model must be a Model or a Program"):
        nn.summary(3)
    with pytest.raises(AttributeValueError, match="batch_size must be an int of at least 1"):
        nn.summary(make()[0], batch_size=0)
    with pytest.raises(AttributeTypeError, match="summary: .*'batchsize'.*batch_size"):
        nn.summary(make()[0], batchsize=3)


def f32(*shape):
    return np.ones(shape, np.float32)


ENDS = np.array([1, 4])
COUNTS = {
    "bilinear": ({"x": f32(5, 2), "y": f32(5, 3), "weight": f32(4, 2, 3)}, {}, 2 * 5 * 4 * 9),
    "conv1d": ({"x": f32(2, 4, 9), "weight": f32(6, 2, 3)}, {"groups": 2}, 2 * 2 * 6 * 7 * 6),
    "conv2d": ({"x": f32(2, 1, 5, 5), "weight": f32(3, 1, 2, 2)}, {}, 2 * 2 * 3 * 16 * 4),
    "conv3d": ({"x": f32(1, 1, 3, 3, 3), "weight": f32(2, 1, 3, 3, 3)}, {}, 2 * 2 * 27),
    "conv2d_transpose": ({"x": f32(2, 3, 4, 4), "weight": f32(3, 5, 2, 2)}, {}, 2 * 96 * 20),
    "conv3d_transpose": (
        {"x": f32(1, 2, 2, 2, 2), "weight": f32(2, 1, 3, 3, 3)},
        {},
        2 * 16 * 27,
    ),
    "dot": ({"x": f32(3, 4), "y": f32(4, 5)}, {}, 2 * 3 * 4 * 5),
    "einsum": ({"x": [f32(3, 4), f32(4, 5)]}, {"equation": "ij,jk->ik"}, 2 * 60),
    "fc": ({"x": f32(3, 4), "weight": f32(4, 5)}, {}, 2 * 60),
    "grouped_matmul": ({"x": f32(4, 3), "weight": f32(2, 3, 5), "offsets": ENDS}, {}, 2 * 60),
    "grouped_outer": ({"x": f32(4, 3), "y": f32(4, 5), "offsets": ENDS}, {}, 2 * 60),
    "gemm": ({"a": f32(4, 3), "b": f32(4, 5)}, {"transpose_a": True}, 2 * 60),
    "matmul": ({"x": f32(2, 4, 3), "y": f32(4, 5)}, {"transpose_x": True}, 2 * 2 * 60),
    "gru": ({"x": f32(7, 2, 3), "weight_ih": [f32(12, 3)], "weight_hh": [f32(12, 4)]}, {}, 2352),
    "gru_cell": (
        {"x": f32(2, 3), "h": f32(2, 4), "weight_ih": f32(12, 3), "weight_hh": f32(12, 4)},
        {},
        2 * 2 * 84,
    ),
    "lstm": ({"x": f32(7, 2, 3), "weight_ih": [f32(16, 3)], "weight_hh": [f32(16, 4)]}, {}, 3136),
    "lstm_cell": (
        {
            "x": f32(2, 3),
            "h": f32(2, 4),
            "c": f32(2, 4),
            "weight_ih": f32(16, 3),
            "weight_hh": f32(16, 4),
        },
        {},
        2 * 2 * 112,
    ),
    "rnn": ({"x": f32(7, 2, 3), "weight_ih": [f32(4, 3)], "weight_hh": [f32(4, 4)]}, {}, 784),
    "dropout_attention": (
        {"q": f32(2, 5, 8), "k": f32(2, 7, 8), "v": f32(2, 7, 3)},
        {},
        2 * 2 * 5 * 7 * 11,
    ),
    "scaled_dot_product_attention": (
        {"q": f32(2, 4, 5, 8), "k": f32(2, 2, 7, 8), "v": f32(2, 2, 7, 3)},
        {},
        2 * 2 * 4 * 5 * 7 * 11,
    ),
}
"""Inputs, attributes and the number of operations, counted by hand."""


def test_every_operation_count_formula_has_a_test_case():
    assert sorted(COUNTS) == sorted(FLOPS)


@pytest.mark.parametrize("op_type", sorted(COUNTS))
def test_operations_of_a_product_are_counted(programs, op_type):
    inputs, attrs, expected = COUNTS[op_type]
    block = programs[0].global_block()

    def declare(name, array):
        return block.create_var(name, array.shape, str(array.dtype), is_data=True)

    slots = {
        slot: [declare(f"{slot}_{i}", a) for i, a in enumerate(given)]
        if isinstance(given, list)
        else declare(slot, given)
        for slot, given in inputs.items()
    }
    op = block.append_op(op_type, inputs=slots, attrs=attrs)
    assert count_flops(op) == expected


def test_operations_of_a_scan_count_all_iterations_and_operations_of_a_loop_are_unknown(programs):
    main, _ = programs
    x = layers.data("x", [5, 2, 3])
    w = layers.data("w", [3, 3])
    layers.scan(lambda h, step: (h @ w, step), init=ow.ops.fill(shape=[2, 3]), xs=x)
    scan = next(op for op in main.global_block().ops if op.type == "scan")
    assert count_flops(scan) == 5 * 2 * 2 * 3 * 3
    layers.while_loop(
        lambda c: c[0] < 3.0, lambda c: (c[0] + 1, c[1] @ w), (ow.ops.fill(shape=[]), x)
    )
    loop = next(op for op in main.global_block().ops if op.type == "while_loop")
    assert count_flops(loop) is None


@pytest.mark.parametrize(
    ("kind", "shape", "options"),
    [
        ("learned_positions", [None, None, 8], {"max_length": 16}),
        ("sinusoidal_positions", [None, None, 8], {}),
        ("rotary_embedding", [None, 2, 6, 8], {"max_length": 16}),
        ("lstm", [None, 6, 8], {"size": 4, "num_layers": 2, "lengths": "lengths"}),
        ("transformer_encoder_block", [None, 6, 8], {"heads": 2, "lengths": "lengths"}),
    ],
)
def test_a_layer_with_many_operators_forms_one_row(kind, shape, options):
    model = nn.Model()
    getattr(model, kind)(model.input("x", shape), **options)
    assert [layer.name for layer in nn.summary(model).layers] == [f"{kind}_0"]
