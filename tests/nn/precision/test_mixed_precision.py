"""`nn.mixed_precision`: which operators compute in 16 bits, and which stay in float32."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright import errors
from opwright_nn import layers
from opwright_nn.precision.lists import FLOAT32, NORMALIZATIONS, REDUCED, UNCHANGED

X = np.random.default_rng(1).standard_normal((16, 1, 8, 8), np.float32)
Y = np.random.default_rng(2).integers(0, 4, (16, 1))


def build(mixed_precision=None, optimizer=None):
    """Return a model with convolution, normalization, pooling and fully connected layers."""
    model = nn.Model(mixed_precision=mixed_precision)
    h = model.conv2d("img", 4, 3, paddings=1, bias=False, name="conv")
    h = model.max_pool2d(model.relu(model.batch_norm(h, name="norm")), 2)
    prob = model.fc_layer(model.flatten(h), 4, activation="softmax", name="out")
    loss = model.mean(model.cross_entropy(prob, "label"))
    model.minimize(loss, optimizer or nn.optimizer.Adam(0.01))
    model.initialize_parameters(seed=3, img=X, label=Y)
    model.fill("img", X)
    model.fill("label", Y)
    return model


def dtypes_read(program):
    """Return the dtypes of the float inputs by operator type."""
    block, found = program.global_block(), {}
    for op in program.global_block().ops:
        dtypes = {block.var(name).dtype for name in op.input_names()}
        found.setdefault(op.type, set()).update(d for d in dtypes if "float" in d)
    return found


def var(name, dtype="float32", shape=(4, 4)):
    return layers.data(name, list(shape), dtype)


@pytest.fixture
def program():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        yield main


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_compute_in_16_bits_and_reductions_in_float32(dtype):
    read = dtypes_read(build(dtype).program)
    for op_type in ("conv2d", "conv2d_grad", "fc", "relu", "relu_grad", "max_pool2d"):
        assert read[op_type] == {dtype}, op_type
    for op_type in ("batch_norm", "batch_norm_grad", "softmax", "cross_entropy", "mean"):
        assert read[op_type] == {"float32"}, op_type
    assert read["adam"] == {"float32", "float64"}  # float64: the powers of its betas


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_parameters_gradients_and_states_are_float32(dtype):
    model = build(dtype)
    model.run()
    for name, variable in model.program.global_block().vars.items():
        if variable.persistable and "float" in variable.dtype:
            dtype = "float64" if name.endswith("_power") else "float32"  # powers of Adam's betas
            assert variable.dtype == dtype, name
            assert model.scope.var(name).numpy().dtype == dtype, name
    assert {gradient.dtype for _, gradient in model.param_grads} == {"float32"}


def test_a_parameter_is_cast_once(program):
    with nn.mixed_precision("bfloat16"):
        shared = nn.ParamAttr(name="w")
        x = var("x")
        layers.fc(layers.fc(x, 4, param_attr=shared, bias=False), 4, param_attr=shared, bias=False)
        layers.fc(x, 4, bias=False)
    casts = [op.input("x")[0] for op in program.global_block().ops if op.type == "cast"]
    assert casts.count("w") == casts.count("x") == 1


def test_a_variable_that_was_overwritten_is_recast(program):
    block = program.global_block()
    state = block.create_var("state", [4, 4], persistable=True)
    with nn.mixed_precision("bfloat16"):
        first = ow.ops.matmul(state, state)
        block.append_op("assign", {"x": var("x")}, {"out": "state"})
        second = ow.ops.matmul(state, state)
    reads = [op.input("x") for op in block.ops if op.type == "matmul"]
    assert reads[0] != reads[1]
    assert first.dtype == second.dtype == "bfloat16"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_match_float32(dtype):
    plain, mixed = build(), build(dtype)
    for (parameter, expected), (_, gradient) in zip(plain.param_grads, mixed.param_grads):
        a, b = plain.run(fetch=[expected])[0], mixed.run(fetch=[gradient])[0]
        for model in (plain, mixed):  # each run has trained
            model.initialize_parameters(seed=3)
        np.testing.assert_allclose(b, a, atol=0.03 * np.abs(a).max(), err_msg=parameter.name)
        if parameter.name == "conv_w_param":
            assert not np.array_equal(a, b)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_network_learns_the_digits_as_in_float32(dtype):
    train, test = nn.datasets.digits.load(seed=1)

    def accuracy(mixed_precision):
        model = nn.Model(mixed_precision=mixed_precision)
        scores = model.fc_layer(model.fc_layer("images", 64, activation="relu"), 10)
        loss = model.softmax_with_cross_entropy(scores, "labels", reduction="mean")
        model.minimize(loss, nn.optimizer.Adam(0.01))
        model.initialize_parameters(seed=1, images=train.images)
        rng = np.random.default_rng(0)
        for _ in range(150):
            chosen = rng.integers(0, len(train.images), 64)
            model.fill("images", train.images[chosen])
            model.fill("labels", train.labels[chosen])
            model.run()
        found = model.predict(scores, images=test.images).astype(np.float32)
        return float((found.argmax(1) == test.labels[:, 0]).mean())

    expected = accuracy(None)
    assert expected > 0.95
    assert accuracy(dtype) > expected - 0.015


def test_unlisted_operators_compute_in_the_dtypes_of_their_inputs(program):
    with nn.mixed_precision("bfloat16"):
        wide, narrow = var("wide"), var("narrow", "bfloat16")
        weight = nn.create_parameter([4, 4])
        assert ow.ops.add(wide, wide).dtype == "float32"
        assert ow.ops.add(narrow, narrow).dtype == "bfloat16"
        assert ow.ops.add(narrow, weight).dtype == "bfloat16"
        assert ow.ops.add(narrow, wide).dtype == "float32"
        assert (narrow * 2.0).dtype == "bfloat16"


def test_an_operator_after_a_normalization_has_the_dtype_of_its_inputs(program):
    with nn.mixed_precision("bfloat16"):
        assert layers.relu(layers.layer_norm(var("a", "bfloat16"))).dtype == "bfloat16"
        assert layers.relu(layers.layer_norm(var("b"))).dtype == "float32"
        assert layers.softmax(layers.layer_norm(var("c", "bfloat16"))).dtype == "float32"
    casts = [op.input("x")[0] for op in program.global_block().ops if op.type == "cast"]
    assert "layer_norm_2_out" not in casts  # softmax reads it directly


def test_float64_stays_float64(program):
    with nn.mixed_precision("bfloat16"):
        assert ow.ops.matmul(var("x", "float64"), var("y", "float64")).dtype == "float64"


def test_operator_lists_can_be_changed(program):
    with nn.mixed_precision("bfloat16", float32=["matmul"], reduced=["softmax"]):
        assert ow.ops.matmul(var("x"), var("x")).dtype == "float32"
        assert ow.ops.softmax(var("x")).dtype == "bfloat16"


def test_an_inner_block_can_stay_in_float32(program):
    with nn.mixed_precision("bfloat16"):
        h = layers.fc(var("x"), 4)
        with nn.mixed_precision("float32"):
            kept = layers.fc(h, 4)
        assert (h.dtype, kept.dtype) == ("bfloat16", "float32")
        assert layers.fc(kept, 4).dtype == "bfloat16"
    assert layers.fc(var("x"), 4).dtype == "float32"


def test_one_policy_can_be_used_in_nested_and_repeated_blocks(program):
    policy = nn.mixed_precision("bfloat16")
    with policy, policy:
        pass
    with policy:
        assert layers.fc(var("x"), 4).dtype == "bfloat16"
    assert layers.fc(var("x"), 4).dtype == "float32"


def test_a_failed_layer_leaves_no_cast(program):
    with nn.mixed_precision("bfloat16"):
        x, n_before = var("x"), len(program.global_block().ops)
        with pytest.raises(errors.ShapeError, match="matmul"):
            ow.ops.matmul(x, var("y", shape=(3, 3)))
    assert len(program.global_block().ops) == n_before
    assert not [name for name in program.global_block().vars if name.endswith("/bfloat16")]


def test_a_loop_keeps_the_dtype_of_its_carry_and_casts_weights_outside(program):
    with nn.mixed_precision("bfloat16"):

        def cell(h, x):
            h = layers.tanh(layers.fc(layers.concat([x, h], axis=1), 4, name="cell"))
            return h, h

        last, states = layers.scan(cell, var("h"), var("xs", shape=(5, 4, 4)))
    assert (last.dtype, states.dtype) == ("float32", "bfloat16")
    outside = [op.input("x")[0] for op in program.global_block().ops if op.type == "cast"]
    assert {"cell_w_param", "cell_b_param"} <= set(outside)


def test_branches_with_different_dtypes_return_float32(program):
    condition = layers.data("c", [1], "bool")
    with nn.mixed_precision("bfloat16"):
        x = var("x")
        out = layers.cond(condition, lambda: layers.fc(x, 4), lambda: layers.relu(x))
    assert out.dtype == "float32"


def test_recurrent_and_attention_layers_compute_in_16_bits(program):
    with nn.mixed_precision("bfloat16"):
        x = var("x", shape=(2, 5, 8))
        assert layers.attention(x, heads=2).dtype == "bfloat16"
        assert layers.lstm(x, 8)[0].dtype == "bfloat16"
    assert {p.dtype for p in program.parameters()} == {"float32"}


def test_the_inference_clone_and_predict_use_the_dtypes_of_the_training_program():
    model = build("bfloat16")
    model.run()
    clone = model.program.clone(for_inference=True)
    read = dtypes_read(clone)
    assert read["conv2d"] == {"bfloat16"}
    prob = model.predict("out_out", img=X)
    assert prob.dtype == np.float32
    np.testing.assert_allclose(prob.sum(1), 1.0, rtol=1e-5)


def test_parameters_of_float32_and_mixed_models_are_interchangeable(tmp_path):
    plain, mixed = build(), build("bfloat16")
    plain.run()
    plain.save(tmp_path / "p")
    mixed.load_parameter(tmp_path / "p")
    for parameter in plain.parameters:
        value = mixed.scope.var(parameter.name).numpy()
        np.testing.assert_array_equal(value, plain.scope.var(parameter.name).numpy())
    a, b = plain.predict("out_out", img=X), mixed.predict("out_out", img=X)
    np.testing.assert_allclose(a, b, atol=0.02)


def test_a_saved_network_returns_the_same_results(tmp_path):
    model = build("bfloat16")
    ow.save(tmp_path / "net", model.program, model.scope, fetch=["out_out"])
    (prob,) = ow.load(tmp_path / "net")(img=X)
    np.testing.assert_array_equal(prob, model.predict("out_out", img=X))


def test_a_pickled_model_keeps_its_policy():
    twin = pickle.loads(pickle.dumps(nn.Model(mixed_precision="bfloat16")))
    twin.input("x", [None, 4])
    assert twin.fc_layer("x", 4).dtype == "bfloat16"


def test_listed_operators_exist_and_are_listed_only_once():
    lists = [FLOAT32, NORMALIZATIONS, REDUCED, UNCHANGED]
    names = [name for names in lists for name in names]
    assert len(names) == len(set(names))
    for name in names:
        ow.op_proto(name)


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_an_unsupported_dtype_is_refused(dtype):
    message = f'dtype must be "bfloat16", "float16" or "float32", got {dtype!r}'
    with pytest.raises(errors.DtypeError, match=message):
        nn.mixed_precision(dtype)
    with pytest.raises(errors.DtypeError, match=message):
        nn.Model(mixed_precision=dtype)


def test_an_unknown_dtype_is_refused():
    with pytest.raises(errors.DtypeError, match="mixed_precision: .*'bf16'"):
        nn.mixed_precision("bf16")


def test_invalid_options_are_refused():
    with pytest.raises(errors.OperatorNotFoundError, match="sofmax"):
        nn.mixed_precision("bfloat16", float32=["sofmax"])
    with pytest.raises(errors.AttributeTypeError, match=r"write float32=\['gelu'\]"):
        nn.mixed_precision("bfloat16", float32="softmax")
    with pytest.raises(errors.AttributeValueError, match="in one list, got 'add'"):
        nn.mixed_precision("bfloat16", float32=["add"], reduced=["add"])
    with pytest.raises(errors.AttributeValueError, match="loss_scale requires a 16-bit dtype"):
        nn.mixed_precision("float32", loss_scale=2.0)
    with pytest.raises(errors.AttributeTypeError, match="Model: mixed_precision must be"):
        nn.Model(mixed_precision=16)
