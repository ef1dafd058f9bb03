"""Attention, transformers and positions; tests/peers compares attention with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import layers

X = np.random.default_rng(1).normal(size=(2, 5, 8)).astype(np.float32)


def make_x(columns=8):
    return layers.data("x", shape=[None, None, columns])


def compute(build, **feeds):
    """Build a model with `build`, which maps inputs to variables; return their values."""
    model = nn.Model()
    with model.guard():
        inputs = [
            layers.data(name, [None] * array.ndim if name != "x" else [None, None, 8], array.dtype)
            for name, array in feeds.items()
        ]
        out = build(*inputs)
    model.initialize_parameters(seed=2)
    return model.predict(out, **feeds)


def test_self_attention_has_one_weight_for_queries_keys_and_values(programs):
    out = layers.attention(make_x(), 2)
    shapes = {parameter.name: parameter.shape for parameter in programs[0].parameters()}
    assert shapes == {
        "attention_0_qkv_w_param": (8, 24),
        "attention_0_qkv_b_param": (24,),
        "attention_0_w_param": (8, 8),
        "attention_0_b_param": (8,),
    }
    assert (out.name, out.shape) == ("attention_0_out", (-1, -1, 8))


def test_the_attended_memory_can_have_a_different_width(programs):
    memory = layers.data("memory", shape=[None, 3, 5])
    out = layers.attention(make_x(), 2, memory, bias=False, name="a")
    shapes = {parameter.name: parameter.shape for parameter in programs[0].parameters()}
    assert shapes == {"a_q_w_param": (8, 8), "a_kv_w_param": (5, 16), "a_w_param": (8, 8)}
    assert out.shape == (-1, -1, 8)


@pytest.mark.parametrize("layer", [layers.attention, layers.transformer_encoder_block])
def test_a_causal_layer_does_not_depend_on_later_time_steps(layer):
    later = X.copy()
    later[:, 3:] += 1
    first, second = (compute(lambda x: layer(x, 2, causal=True), x=x) for x in (X, later))
    np.testing.assert_array_equal(first[:, :3], second[:, :3])
    assert np.abs(first[:, 3:] - second[:, 3:]).max() > 0.01


def test_keys_beyond_a_length_have_no_effect():
    changed = X.copy()
    changed[1, 2:] += 1
    lengths = np.array([5, 2])
    first, second = (
        compute(lambda x, n: layers.attention(x, 4, lengths=n), x=x, n=lengths)
        for x in (X, changed)
    )
    np.testing.assert_array_equal(first[1, :2], second[1, :2])


def test_blocks_apply_dropout_only_in_training():
    model = nn.Model()
    x = model.input("x", [None, None, 8])
    h = model.transformer_decoder_block(model.transformer_encoder_block(x, 2, dropout=0.5), x, 2)
    model.backward(model.mean(h * h))
    model.sgd(0.0)
    model.fill("x", X)
    assert model.run()[0] != model.run()[0]
    np.testing.assert_array_equal(model.predict(h, x=X), model.predict(h, x=X))


def test_a_block_is_trained_and_saved(tmp_path):
    def make():
        model = nn.Model()
        words = model.input("words", [None, None], "int64")
        h = model.learned_positions(model.embedding(words, [10, 16]), 6)
        h = model.transformer_encoder_block(h, 4, causal=True, name="block")
        scores = model.fc_layer(h, 10, num_flatten_dims=2)
        model.backward(model.softmax_with_cross_entropy(scores, "next", reduction="mean"))
        model.adam(0.01)
        words = np.arange(12).reshape(2, 6) % 10
        model.fill("words", words)
        model.fill("next", (words + 1) % 10)
        return model

    model = make()
    losses = [model.run()[0] for _ in range(80)]
    assert losses[-1] < 0.3 * losses[0]
    model.save(tmp_path)
    twin = make()
    twin.resume(tmp_path)
    assert twin.run()[0] == model.run()[0]


def sines(n, columns, base=10000.0):
    angles = np.arange(n)[:, None] * base ** (-(np.arange(columns) // 2 * 2) / columns)
    return np.where(np.arange(columns) % 2, np.cos(angles), np.sin(angles))


def test_sinusoidal_positions_add_sines_and_cosines():
    got = compute(layers.sinusoidal_positions, x=X)
    np.testing.assert_allclose(got, X + sines(5, 8), atol=1e-6)


def test_learned_positions_add_one_row_per_time_step():
    model = nn.Model()
    x = model.input("x", [None, None, 8])
    out = model.learned_positions(x, 7, name="p")
    model.backward(model.mean(out))
    model.initialize_parameters(seed=1)
    rows = model.scope.var("p_w_param").numpy()
    assert rows.shape == (7, 8)
    np.testing.assert_allclose(model.predict(out, x=X), X + rows[:5], rtol=1e-6)
    with pytest.raises(Exception, match=r"index must be in \[0, 7\), got 7"):
        model.predict(out, x=np.ones((1, 8, 8), np.float32))
    gradient = model.predict("p_w_param_grad", x=X)
    np.testing.assert_allclose(gradient[:5], 1 / 40)
    np.testing.assert_array_equal(gradient[5:], 0)


@pytest.mark.parametrize("interleaved", [False, True])
def test_products_of_rotary_embeddings_depend_only_on_the_distance(interleaved):
    same = np.broadcast_to(X[:1, :1], (1, 6, 8)).copy()

    def turn(x):
        return layers.rotary_embedding(x, 10, interleaved=interleaved)

    turned = compute(turn, x=same)[0]
    products = turned @ turned.T
    for distance in range(6):
        np.testing.assert_allclose(
            np.diagonal(products, distance), products[0, distance], rtol=1e-5
        )
    assert np.ptp(products[0]) > 0.1


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (lambda x: layers.attention(x, 3), AttributeValueError, "heads must divide the 8 columns"),
        (lambda x: layers.attention(x, 2, mask=x, lengths=x), AttributeValueError, "mask and len"),
        (lambda x: layers.attention(x, 2, x[0]), ShapeError, r"input must have more than"),
        (lambda x: layers.attention("x", 2), AttributeTypeError, "input must be a variable"),
        (
            lambda x: layers.attention(x, 2, param_attr=nn.ParamAttr("w")),
            AttributeValueError,
            "param_attr must not have a name",
        ),
        (
            lambda x: layers.transformer_encoder_block(x, 2, dropout=1.0),
            AttributeValueError,
            "dropout must be a finite number",
        ),
        (
            lambda x: layers.transformer_decoder_block(x, 2, 2),
            AttributeTypeError,
            "memory must be a variable",
        ),
        (
            lambda x: layers.transformer_encoder_block(layers.data("y"), 2),
            ShapeError,
            r"the last axis of input must be known.*model.input\('words'",
        ),
        (
            lambda x: layers.learned_positions(layers.data("z", [None, 9, 4]), 8),
            ShapeError,
            "at most max_length=8 time steps",
        ),
        (lambda x: layers.sinusoidal_positions(x, 1.0), AttributeValueError, "base must be"),
        (
            lambda x: layers.rotary_embedding(layers.data("w", [2, 3]), 8),
            AttributeValueError,
            "even number of columns",
        ),
    ],
)
def test_the_error_names_a_bad_argument(programs, call, error, rule):
    with pytest.raises(error, match=rule):
        call(make_x())
    assert {op.type for op in programs[0].global_block().ops} <= {"slice", "squeeze"}  # of x[0]


def test_a_failing_block_changes_nothing(programs, snapshot):
    x = make_x()
    before = snapshot()
    with pytest.raises(AttributeValueError, match="attention: heads must divide"):
        layers.transformer_encoder_block(x, 3)
    assert snapshot() == before
    assert isinstance(x, ow.Variable)


@pytest.mark.parametrize(
    "layer",
    [
        layers.attention,
        layers.transformer_encoder_block,
        lambda x, heads, lengths: layers.transformer_decoder_block(
            x, x, heads, lengths=lengths, memory_lengths=lengths
        ),
    ],
    ids=["attention", "encoder", "decoder"],
)
@pytest.mark.parametrize("strange", [np.nan, np.inf, 1e30])
def test_elements_beyond_a_length_do_not_affect_outputs_or_weight_gradients(layer, strange):
    def train(x):
        model = nn.Model()
        with model.guard():
            inputs = [layers.data("x", [None, None, 8]), layers.data("n", [None], "int64")]
            out = layer(inputs[0], 2, lengths=inputs[1])
            kept = ow.ops.sequence_mask(inputs[1], out)
            loss = ow.ops.sum(ow.ops.where(ow.ops.unsqueeze(kept, axis=[2]), out * out, 0.0))
            gradients = [gradient for _, gradient in ow.append_backward(loss)]
        model.initialize_parameters(seed=2)
        return model.predict([out, *gradients], x=x, n=np.array([5, 2]))

    changed = X.copy()
    changed[1, 2:] = strange
    first, second = train(X), train(changed)
    first[0], second[0] = first[0][1, :2], second[0][1, :2]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
