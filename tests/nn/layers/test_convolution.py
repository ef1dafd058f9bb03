"""Layers for images: shapes, parameters, paddings, and error messages."""

from __future__ import annotations

import math

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, DtypeError, ShapeError
from opwright_nn import layers


def make_x(channels=3, height=8, width=10, data_format="NCHW", dtype="float32"):
    shape = [None, channels, height, width]
    if data_format == "NHWC":
        shape = [None, height, width, channels]
    return layers.data("x", shape=shape, dtype=dtype)


def only_op(programs):
    (op,) = programs[0].global_block().ops
    return op


def initialized(programs):
    scope = ow.Scope()
    ow.Network(programs[1].global_block()).run(scope)
    return scope


def test_conv2d_creates_parameters_named_after_the_layer(programs):
    main, startup = programs
    out = layers.conv2d(make_x(), 5, (3, 2), activation="relu")
    assert (out.name, out.shape, out.dtype) == ("conv2d_0_out", (-1, 5, 6, 9), "float32")
    shapes = {parameter.name: parameter.shape for parameter in main.parameters()}
    assert shapes == {"conv2d_0_w_param": (5, 3, 3, 2), "conv2d_0_b_param": (5,)}
    assert {name: var.shape for name, var in startup.global_block().vars.items()} == shapes
    assert [op.type for op in main.global_block().ops] == ["conv2d", "relu"]
    layers.conv2d(make_x(), 5, 3, bias=False, name="edges")
    assert [parameter.name for parameter in main.parameters()][2:] == ["edges_w_param"]


def test_one_number_sets_height_and_width(programs):
    layers.conv2d(make_x(), 6, 3, 2, 1, dilations=2, groups=3)
    op = only_op(programs)
    assert programs[0].parameters()[0].shape == (6, 1, 3, 3)
    assert [op.attr(name) for name in ("strides", "dilations")] == [(2, 2), (2, 2)]
    assert op.attr("paddings") == (1, 1, 1, 1)
    assert op.attr("groups") == 3


@pytest.mark.parametrize(
    ("paddings", "strides", "expected"),
    [
        (0, 1, (0, 0, 0, 0)),
        (2, 1, (2, 2, 2, 2)),
        ((1, 2), 1, (1, 1, 2, 2)),
        ([1, 2, 3, 4], 1, (1, 2, 3, 4)),
        (np.array([0, 1]), 1, (0, 0, 1, 1)),
        ("valid", 1, (0, 0, 0, 0)),
        ("same", 1, (1, 1, 1, 2)),
        ("same", 2, (0, 1, 1, 1)),
        ("same", (3, 4), (0, 1, 1, 1)),
    ],
)
def test_paddings_have_several_forms(programs, paddings, strides, expected):
    out = layers.conv2d(make_x(), 2, (3, 4), strides, paddings)
    assert only_op(programs).attr("paddings") == expected
    if isinstance(paddings, str) and paddings == "same":
        down, across = (strides, strides) if isinstance(strides, int) else strides
        assert out.shape == (-1, 2, math.ceil(8 / down), math.ceil(10 / across))


def test_same_padding_includes_the_gaps_of_a_dilated_kernel(programs):
    out = layers.conv2d(make_x(), 2, 3, paddings="same", dilations=(2, 1))
    assert only_op(programs).attr("paddings") == (2, 2, 1, 1)
    assert out.shape == (-1, 2, 8, 10)


def test_the_weight_layout_is_the_same_for_both_data_formats(programs):
    out = layers.conv2d(make_x(data_format="NHWC"), 4, 3, data_format="NHWC")
    assert out.shape == (-1, 6, 8, 4)
    assert programs[0].parameters()[0].shape == (4, 3, 3, 3)


@pytest.mark.parametrize(
    ("activation", "groups", "std"),
    [
        (None, 1, math.sqrt(2 / ((32 + 128) * 25))),
        ("sigmoid", 1, 4 * math.sqrt(2 / ((32 + 128) * 25))),
        ("relu", 1, math.sqrt(2 / (32 * 25))),
        ("relu", 8, math.sqrt(2 / (4 * 25))),
    ],
)
def test_the_default_weights_preserve_the_variance_of_the_input(programs, activation, groups, std):
    x = make_x(channels=32)
    layers.conv2d(x, 128, 5, activation=activation, groups=groups)
    weight = initialized(programs).var("conv2d_0_w_param").numpy()
    assert weight.std() == pytest.approx(std, rel=0.03)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_layers_for_images_match_their_operators(programs, data_format):
    form = {"data_format": data_format}
    x = make_x(dtype="float64", **form)
    h = layers.conv2d(x, 4, 3, 2, (1, 0), activation="tanh", **form)
    outs = [
        layers.max_pool2d(h, 2, 1, "same", **form),
        layers.avg_pool2d(h, (2, 3), paddings=(0, 1, 1, 1), count_include_pad=True, **form),
        layers.avg_pool2d(h, 3, ceil_mode=True, **form),
        layers.adaptive_avg_pool2d(h, (2, 1), **form),
    ]
    scope = initialized(programs)
    weight, bias = (scope.var(f"conv2d_0_{kind}_param").numpy() for kind in "wb")
    image = np.random.default_rng(0).random((2, *x.shape[1:]))
    run = ow.Network(programs[0].global_block()).compile(["x"], [h, *outs], scope=scope)
    pixels, *results = run(x=image)
    conv = ow.ops.conv2d(image, weight, bias, strides=[2, 2], paddings=[1, 1, 0, 0], **form)
    np.testing.assert_allclose(pixels, np.tanh(conv), rtol=1e-12)
    expected = [
        ow.ops.max_pool2d(pixels, kernel=[2, 2], strides=[1, 1], paddings=[0, 1, 0, 1], **form),
        ow.ops.avg_pool2d(
            pixels, kernel=[2, 3], paddings=[0, 1, 1, 1], count_include_pad=True, **form
        ),
        ow.ops.avg_pool2d(pixels, kernel=[3, 3], ceil_mode=True, **form),
        ow.ops.adaptive_avg_pool2d(pixels, output_size=[2, 1], **form),
    ]
    for out, got, value in zip(outs, results, expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-12)  # the layout decides the order of sums
        assert out.shape[1:] == got.shape[1:]


def test_unknown_height_and_width_are_determined_at_run_time(programs):
    x = make_x(height=None, width=None)
    h = layers.max_pool2d(layers.conv2d(x, 4, 3, paddings="same"), 2)
    assert h.shape == (-1, 4, -1, -1)
    assert layers.adaptive_avg_pool2d(h, 1).shape == (-1, 4, 1, 1)
    assert layers.flatten(h).shape == (-1, -1)
    scope = initialized(programs)
    run = ow.Network(programs[0].global_block()).compile(["x"], [h], scope=scope)
    for size in (4, 9):
        (pooled,) = run(x=np.zeros((2, 3, size, size + 1), "float32"))
        assert pooled.shape == (2, 4, size // 2, (size + 1) // 2)


def test_pooling_strides_default_to_the_kernel_sizes(programs):
    x = make_x()
    assert layers.max_pool2d(x, (2, 5)).shape == (-1, 3, 4, 2)
    assert layers.avg_pool2d(x, 2, strides=(1, 2)).shape == (-1, 3, 7, 5)
    first, second = programs[0].global_block().ops
    assert first.attr("strides") == ()
    assert second.attr("strides") == (1, 2)


BAD_CONV = [
    (
        {"input": np.zeros((1, 3, 8, 8))},
        AttributeTypeError,
        "input must be a variable of a program",
    ),
    ({"filters": 0}, AttributeValueError, "filters must be an int of at least 1, got 0"),
    ({"filters": "four"}, AttributeTypeError, "filters must be an int of at least 1, got 'four'"),
    ({"kernel": 0}, AttributeValueError, "kernel must be an int of at least 1, or two .*got 0"),
    ({"kernel": (3,)}, AttributeValueError, r"kernel must be .* got \(3,\); write kernel=1 or"),
    ({"kernel": (3, 2.0)}, AttributeTypeError, r"kernel must be .* got \(3, 2.0\) \(tuple\)"),
    ({"kernel": "3x3"}, AttributeTypeError, "kernel must be an int .*got '3x3'"),
    ({"strides": (1, 0)}, AttributeValueError, r"strides must be .* got \(1, 0\)"),
    ({"strides": True}, AttributeTypeError, "strides must be .* got True"),
    ({"paddings": "smae"}, AttributeValueError, "paddings must be one of.*did you mean 'same'"),
    ({"paddings": -1}, AttributeValueError, "paddings must be 'same', 'valid', an int .*got -1"),
    ({"paddings": (1, 1, 1)}, AttributeValueError, r"paddings must be .*got \(1, 1, 1\)"),
    ({"paddings": None}, AttributeTypeError, "paddings must be .*got None"),
    ({"dilations": 0}, AttributeValueError, "dilations must be an int of at least 1, or two"),
    ({"groups": 0}, AttributeValueError, "groups must be an int of at least 1, got 0"),
    ({"groups": 4}, AttributeValueError, "groups must divide filters=6, got 4; all groups"),
    ({"groups": 2}, ShapeError, "groups must divide the 3 channels of .*x.*, got 2; all groups"),
    ({"bias": None}, AttributeTypeError, "bias must be True or False, got None"),
    ({"activation": "rleu"}, AttributeValueError, "activation must be an operator .*'relu'"),
    ({"data_format": "NWHC"}, AttributeValueError, "data_format must be one of 'NCHW', 'NHWC'"),
    ({"data_format": 1}, AttributeTypeError, "data_format must be one of 'NCHW', 'NHWC', got 1"),
    ({"name": 1}, AttributeTypeError, "name must be a string"),
    ({"param_attr": "w"}, AttributeTypeError, "param_attr must be a ParamAttr"),
    ({"bias_attr": "b"}, AttributeTypeError, "bias_attr must be a ParamAttr"),
    ({"kernel": 9}, ShapeError, "the kernel must fit into the padded height, got a kernel that"),
]


@pytest.mark.parametrize(("arguments", "error", "rule"), BAD_CONV)
def test_the_error_names_a_bad_argument_of_conv2d_and_the_program_is_unchanged(
    programs, snapshot, arguments, error, rule
):
    values = {"input": make_x(), "filters": 6, "kernel": 3} | arguments
    before = snapshot()
    with pytest.raises(error, match=f"conv2d: {rule}"):
        layers.conv2d(**values)
    assert snapshot() == before


BAD_POOL = [
    ({"input": "x"}, AttributeTypeError, "input must be a variable of a program, got 'x'"),
    ({"kernel": 0}, AttributeValueError, "kernel must be an int of at least 1, or two"),
    ({"strides": (2, 2, 2)}, AttributeValueError, r"strides must be .* got \(2, 2, 2\)"),
    ({"paddings": "vaild"}, AttributeValueError, "paddings must be .*did you mean 'valid'"),
    ({"paddings": 2}, ShapeError, "paddings must be smaller than the kernel, got top 2 for ke"),
    ({"ceil_mode": "yes"}, AttributeTypeError, "ceil_mode must be True or False, got 'yes'"),
    ({"data_format": "nchw"}, AttributeValueError, "data_format must be one of 'NCHW', 'NHWC'"),
    ({"name": ""}, AttributeValueError, "name must be a string that is not empty"),
    ({"kernel": 11}, ShapeError, "the kernel must fit into the padded height"),
]


@pytest.mark.parametrize("layer", [layers.max_pool2d, layers.avg_pool2d])
@pytest.mark.parametrize(("arguments", "error", "rule"), BAD_POOL)
def test_the_error_names_a_bad_argument_of_pooling_and_nothing_changes(
    programs, snapshot, layer, arguments, error, rule
):
    values = {"input": make_x(), "kernel": 2} | arguments
    before = snapshot()
    with pytest.raises(error, match=f"{layer.__name__}: {rule}"):
        layer(**values)
    assert snapshot() == before


BINS = "output_size must be an int of at least 1, or two of them, for height and width"


@pytest.mark.parametrize(
    ("layer", "arguments", "error", "rule"),
    [
        ("avg_pool2d", {"count_include_pad": 1}, AttributeTypeError, "count_include_pad must be"),
        ("avg_pool2d", {"count_include_pad": None}, AttributeTypeError, "count_include_pad must"),
        ("adaptive_avg_pool2d", {"output_size": 0}, AttributeValueError, f"{BINS}, got 0"),
        ("adaptive_avg_pool2d", {"output_size": [1]}, AttributeValueError, BINS),
        ("adaptive_avg_pool2d", {"output_size": None}, AttributeTypeError, f"{BINS}, got None"),
        ("adaptive_avg_pool2d", {"input": "x"}, AttributeTypeError, "input must be a variable"),
        ("adaptive_avg_pool2d", {"data_format": ""}, AttributeValueError, "data_format must be"),
        ("adaptive_avg_pool2d", {"name": 3}, AttributeTypeError, "name must be a string"),
    ],
)
def test_the_error_names_a_bad_argument_of_other_pooling_layers(
    programs, layer, arguments, error, rule
):
    required = {"output_size": 1} if layer.startswith("adaptive") else {"kernel": 2}
    values = {"input": make_x()} | required | arguments
    with pytest.raises(error, match=f"{layer}: {rule}"):
        getattr(layers, layer)(**values)


@pytest.mark.parametrize(
    ("layer", "arguments"),
    [
        (layers.conv2d, {"filters": 2, "kernel": 2}),
        (layers.max_pool2d, {"kernel": 2}),
        (layers.avg_pool2d, {"kernel": 2, "strides": 1, "paddings": "same"}),
        (layers.adaptive_avg_pool2d, {"output_size": 1}),
    ],
)
def test_images_without_four_axes_are_refused(programs, snapshot, layer, arguments):
    flat = layers.flatten(make_x())
    before = snapshot()
    for data_format, axes in (("NCHW", "channels, height, width"), ("NHWC", "height, width, chan")):
        rule = (
            rf"{layer.__name__}: input must be \[n, {axes}.* for data_format='{data_format}', got"
        )
        with pytest.raises(ShapeError, match=rule):
            layer(flat, **arguments, data_format=data_format)
    assert snapshot() == before


def test_same_padding_with_strides_requires_a_known_size(programs):
    x = make_x(width=None)
    with pytest.raises(ShapeError, match=r"conv2d: paddings='same' with strides=\(2, 2\) depends"):
        layers.conv2d(x, 4, 3, 2, "same")
    assert layers.conv2d(x, 4, 3, (2, 1), "same").shape == (-1, 4, 4, -1)


def test_unknown_channels_are_refused_outside_a_model(programs):
    with pytest.raises(ShapeError, match=r"conv2d: the shape of conv2d_0_w_param .* got \[4, \?"):
        layers.conv2d(make_x(channels=None), 4, 3)
    assert not programs[0].parameters()


def test_integer_images_are_refused(programs, snapshot):
    x = make_x(dtype="uint8")
    before = snapshot()
    with pytest.raises(DtypeError, match=r"conv2d: its input.* must have a float dtype, got uint8"):
        layers.conv2d(x, 4, 3)
    assert snapshot() == before


def test_an_image_model_infers_its_shapes_from_the_first_batch():
    rng = np.random.default_rng(0)
    images, labels = rng.random((32, 1, 8, 8), np.float32), np.arange(32).reshape(-1, 1) % 4
    model = nn.Model()
    h = model.max_pool2d(model.conv2d("img", 8, 3, activation="relu"), 2)
    h = model.conv2d(model.avg_pool2d(h, 2, 1, "same"), 16, 3, paddings=1, activation="relu")
    scores = model.fc_layer(model.flatten(model.adaptive_avg_pool2d(h, 2)), size=4)
    loss = model.mean(model.softmax_with_cross_entropy(scores, "label"))
    model.backward(loss)
    model.adam(learning_rate=0.01)
    model.initialize_parameters(seed=1)
    losses = []
    for _ in range(150):
        model.fill("img", images)
        model.fill("label", labels)
        losses.append(float(model.run()[0]))
    shapes = {parameter.name: parameter.shape for parameter in model.parameters}
    assert shapes["conv2d_0_w_param"] == (8, 1, 3, 3)
    assert shapes["conv2d_1_w_param"] == (16, 8, 3, 3)
    assert shapes["fc_0_w_param"] == (64, 4)
    assert losses[-1] < 0.1 * losses[0]
    assert nn.metrics.accuracy(model.predict(scores, img=images), labels) == 1.0


def test_a_model_refuses_flat_images():
    model = nn.Model()
    model.fc_layer(model.flatten(model.conv2d("img", 4, 3)), size=2)
    with pytest.raises(ShapeError, match=r"conv2d: x must be \[n, channels, height, width\]"):
        model.initialize_parameters(img=np.zeros((2, 64), "float32"))


def test_a_training_step_lowers_the_loss_of_a_small_network(programs):
    main, startup = programs
    x = layers.data("x", shape=[None, 1, 28, 28])
    y = layers.data("y", shape=[None, 1], dtype="int64")
    h = layers.max_pool2d(layers.conv2d(x, filters=20, kernel=5, activation="relu"), kernel=2)
    logits = layers.fc(layers.flatten(h), size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
    nn.optimizer.Adam(1e-3).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = ow.Network(main.global_block()).compile(["x", "y"], [loss], scope=scope)
    images = np.random.default_rng(0).random((16, 1, 28, 28), np.float32)
    labels = np.arange(16).reshape(-1, 1) % 10
    losses = [float(step(x=images, y=labels)[0]) for _ in range(10)]
    assert losses[-1] < 0.5 * losses[0]
    assert "conv2d(x, weight=conv2d_0_w_param, bias=conv2d_0_b_param)" in str(main)
    assert "= max_pool2d(conv2d_0_out, kernel=[2, 2])  -> float32[?, 20, 12, 12]" in str(main)
