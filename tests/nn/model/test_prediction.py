"""Prediction computes a variable and changes neither parameters nor states."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.op import OpMaker
from opwright.plugin import Package
from opwright_nn import layers, optimizer

X = np.random.default_rng(1).random((6, 8), np.float32)
Y = np.array([[0], [2], [1], [1], [0], [2]])


def values(scope):
    """Return every value in a scope."""
    return {name: scope.var(name).numpy() for name in scope.names() if scope.var(name).is_set}


def make(optimize="adam"):
    """Return a trained model with dropout, batch_norm, a metric and every kind of state."""
    model = nn.Model()
    hidden = model.fc_layer(input="x", size=5, activation="relu")
    hidden = model.dropout(model.batch_norm(hidden), 0.5)
    prob = model.fc_layer(input=hidden, size=3, activation="softmax")
    loss = model.mean(input=model.cross_entropy(input=prob, label="y"))
    model.accuracy(prob, "y")
    model.backward(loss)
    model.optimize(optimize)
    model.fill("x", X)
    model.fill("y", Y)
    model.run()
    return model


def feeds_of(model, name):
    """Return the inputs on which a variable depends."""
    program = nn.inference_program(model.program, name)
    read = {n for op in program.global_block().ops for n in op.input_names()}
    return {n: v for n, v in {"x": X, "y": Y}.items() if n in read}


@pytest.mark.parametrize("optimize", ["sgd", "momentum", "adam", "adamw"])
def test_predicting_any_variable_changes_nothing(optimize):
    model = make(optimize)
    before = values(model.scope)
    for name in list(model.program.global_block().vars):
        if name not in ("x", "y"):
            model.predict(name, **feeds_of(model, name))
            after = values(model.scope)
            assert after.keys() == before.keys(), name
            for kept, value in before.items():
                np.testing.assert_array_equal(after[kept], value, err_msg=f"{name}: {kept}")


def test_a_parameter_or_state_is_predicted_without_a_feed():
    model = make()
    before = values(model.scope)
    for name in ("fc_0_w_param", "fc_0_w_param_moment1", "batch_norm_0_mean", "learning_rate"):
        np.testing.assert_array_equal(model.predict(name), before[name])


def test_a_value_computed_from_a_parameter_uses_the_value_before_the_update():
    model = make()
    with model.guard():
        square = ow.ops.square(model.program.global_block().var("fc_0_w_param"))
    weight = model.scope.var("fc_0_w_param").numpy()
    np.testing.assert_array_equal(model.predict(square), weight * weight)


def test_a_prediction_runs_only_operators_of_the_forward_pass():
    model = make()
    program = nn.inference_program(model.program, "fc_1_out")
    types = [op.type for op in program.global_block().ops]
    assert types == ["fc", "batch_norm", "dropout", "fc", "softmax"][: len(types)]


def test_a_predicted_variable_can_be_persistable_in_the_training_program():
    model = make()
    hidden = model.program.global_block().var("fc_0_out")
    wanted = model.predict(hidden, x=X)
    hidden.persistable = True
    model.run()
    kept = model.scope.var("fc_0_out").numpy()
    found = model.predict(hidden, x=X[:2])
    assert found.shape == (2, 5)
    assert not np.array_equal(model.predict(hidden, x=X), wanted)
    np.testing.assert_array_equal(model.scope.var("fc_0_out").numpy(), kept)


def test_random_operators_outside_training_draw_the_numbers_of_the_next_step():
    model = nn.Model()
    with model.guard():
        x = layers.data("x", [None, 8])
        block = model.program.global_block()
        noise = block.append_op("uniform", attrs={"shape": [6, 8]}).output("out")[0]
        out = ow.ops.add(x, block.var(noise))
    first = model.predict(out, x=X)
    assert model.scope.names() == []
    np.testing.assert_array_equal(model.predict(out, x=X), first)
    model.backward(model.mean(model.fc_layer(out, 2)))
    model.sgd(0.1)
    model.fill("x", X)
    model.run()
    assert not np.array_equal(model.predict(out, x=X), first)
    assert model.scope.var("@step").numpy() == [1]


def test_a_state_that_a_forward_operator_updates_does_not_change():
    def infer(ctx):
        ctx.set_output("out", ctx.input("x").shape)
        ctx.set_output("count_out", ctx.input("count").shape)

    def count(x, count, out, count_out):
        np.add(x, count, out=out)
        np.add(count, 1, out=count_out)

    maker = OpMaker("test.count").add_comment("Counts its runs.").add_input("x", "any shape")
    maker.add_input("count", "[1]").same_dtype_as("x").add_output("out", "x + count")
    maker.same_dtype_as("x").add_output("count_out", "count + 1").same_dtype_as("x")
    definition = maker.aliases("count").build(infer)
    package = Package("test", "opwright-test", "1")
    with ow.context_guard(ow.Context.discover()) as context:
        context.ops.add("test.count", definition, package)
        context.kernels.add(
            "test.count", device="cpu", dtypes="*", kernel=count, library="test", package=package
        )
        model = nn.Model()
        with model.guard():
            x = layers.data("x", [None, 8])
            block = model.program.global_block()
            block.create_var("runs", [1], persistable=True)
            block.append_op("test.count", {"x": x, "count": "runs"}, {"out": "y"})
        model.scope.var("runs").set(np.array([5], np.float32))
        for _ in range(2):
            np.testing.assert_array_equal(model.predict("y", x=X), X + 5)
        np.testing.assert_array_equal(model.predict("runs"), [5])
        np.testing.assert_array_equal(model.scope.var("runs").numpy(), [5])


def test_a_state_that_is_written_together_with_the_target_does_not_change():
    model = nn.Model()
    with model.guard():
        x = layers.data("x", [6, 8])
        block = model.program.global_block()
        block.create_var("best", [6, 1], persistable=True)
        block.append_op("square", {"x": "best"}, {"out": "worse"})
        block.append_op("top_k", {"x": x}, {"out": "best", "indices": "where"}, {"k": 1})
    model.scope.var("best").set(np.full((6, 1), 9, np.float32))
    np.testing.assert_array_equal(model.predict("where", x=X)[:, 0], X.argmax(axis=1))
    assert (model.scope.var("best").numpy() == 9).all()
    assert (model.predict("worse") == 81).all()


def test_the_inference_program_does_not_change_the_training_program(programs, snapshot):
    loss = layers.mean(layers.batch_norm(layers.fc(layers.data("x", [None, 3]), 4)))
    optimizer.Adam(0.1).minimize(loss)
    before = snapshot()
    nn.inference_program(programs[0], ["fc_0_w_param", loss])
    assert snapshot() == before


def test_a_fed_variable_replaces_its_computation():
    model = make()
    (hidden,) = [op for op in model.program.global_block().ops if op.type == "dropout"]
    name = hidden.output("out")[0]
    values_of_x, whole = model.predict([name, "fc_1_out"], x=X)
    np.testing.assert_array_equal(model.predict("fc_1_out", **{name: values_of_x}), whole)
    other = model.predict("fc_1_out", **{name: 2 * values_of_x})
    assert not np.array_equal(other, whole)
    np.testing.assert_array_equal(model.predict("fc_1_out", x=X), whole)


@pytest.mark.parametrize(
    ("variable", "feeds", "rule"),
    [
        ("fc_1_out", {"x": X, "dropout_0_out": X}, "inputs that 'fc_1_out' depends on, got 'x'"),
        ("fc_0_out", {"x": X, "fc_1_out": X}, "inputs that 'fc_0_out' depends on, got 'fc_1_out'"),
        ("fc_0_out", {"fc_0_out": X}, "inputs that 'fc_0_out' depends on, got 'fc_0_out'"),
        ("fc_1_out", {"fc_0_w_param": X}, "inputs that 'fc_1_out' depends on, got 'fc_0_w_param'"),
        ("fc_1_out", {"dropout_0_out": X[:, :3]}, "dropout_0_out.*5"),
    ],
)
def test_the_error_names_a_variable_that_cannot_be_fed(variable, feeds, rule):
    with pytest.raises(ow.errors.OpwrightError, match=rule):
        make().predict(variable, **feeds)
