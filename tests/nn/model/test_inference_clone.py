"""``Program.clone(for_inference=True)``, with layers and optimizers of this package."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

X = np.random.default_rng(1).random((6, 8), np.float32)
Y = np.array([0, 2, 1, 1, 0, 2])


def build(optimizer=None):
    """Return the main and startup programs of a training network with loss and accuracy."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", [None, 8])
        label = layers.data("label", [None], "int64")
        h = layers.dropout(layers.batch_norm(layers.fc(x, 5, activation="relu")), 0.5)
        scores = layers.fc(h, 3, name="scores")
        loss = layers.softmax_with_cross_entropy(scores, label, reduction="mean", name="loss")
        layers.accuracy(scores, label, name="accuracy")
        if optimizer is not None:
            optimizer.minimize(loss)
    return main, startup


def types(program):
    return [op.type for op in program.global_block().ops]


OPTIMIZERS = {
    "sgd": lambda: nn.optimizer.SGD(0.1),
    "adam": lambda: nn.optimizer.Adam(0.01),
    "decay": lambda: nn.optimizer.Momentum(0.1, regularizer=nn.regularizer.L2(0.01)),
    "clip": lambda: nn.optimizer.SGD(0.1, clip=nn.clip.ClipByGlobalNorm(1.0)),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_clone_contains_the_operators_that_precede_the_gradients(make):
    clone = build(make())[0].clone(for_inference=True)
    assert types(clone) == types(build()[0])
    assert len(clone.blocks) == 1
    states = {name for name, v in clone.global_block().vars.items() if v.persistable}
    plain = build()[0].global_block().vars.items()
    assert states == {name for name, v in plain if v.persistable} - {"@step"}


def test_dropout_and_batch_norm_are_in_inference_mode_in_the_clone():
    main, startup = build(nn.optimizer.SGD(0.1))
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = ow.Network(main.global_block()).compile(["x", "label"], ["loss_out"], scope=scope)
    for _ in range(3):
        step(x=X, label=Y)
    before = {name: scope.var(name).numpy() for name in scope.names()}
    network = ow.Network(main.clone(for_inference=True).global_block())
    test = network.compile(["x", "label"], ["scores_out", "loss_out"], scope=scope)
    scores, loss = test(x=X, label=Y)
    for name, value in before.items():
        np.testing.assert_array_equal(scope.var(name).numpy(), value, err_msg=name)
    hidden = np.maximum(X @ before["fc_0_w_param"] + before["fc_0_b_param"], 0)
    normal = (hidden - before["batch_norm_0_mean"]) / np.sqrt(
        before["batch_norm_0_variance"] + 1e-5
    )
    normal = normal * before["batch_norm_0_w_param"] + before["batch_norm_0_b_param"]
    expected = normal @ before["scores_w_param"] + before["scores_b_param"]
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    logs = expected - np.log(np.exp(expected).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(loss, -logs[np.arange(6), Y].mean(), rtol=1e-5)


def test_an_update_counter_is_removed_but_a_later_metric_is_not():
    main, _ = build(nn.optimizer.SGD(0.1))
    with ow.program_guard(main, ow.Program()):
        block = main.global_block()
        rate = block.var("learning_rate")
        block.append_op("increment", {"x": rate}, {"out": rate})
        layers.mean(block.var("scores_out"), name="late")
    assert types(main.clone(for_inference=True)) == [*types(build()[0]), "mean"]


def test_the_original_and_a_plain_clone_are_not_changed():
    main, _ = build(nn.optimizer.Adam(0.1))
    text = str(main)
    main.clone(for_inference=True)
    assert str(main) == text == str(main.clone())


def test_loop_bodies_are_kept_with_their_loops():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x, h0 = layers.data("x", [5, 2, 3]), layers.data("h0", [2, 3])

        def cell(h, item):
            h = layers.dropout(layers.tanh(layers.fc(h + item, 3, param_attr=shared)), 0.5)
            return h, h

        shared = nn.ParamAttr("w")
        _, states = layers.scan(cell, h0, x)
        nn.optimizer.SGD(0.1).minimize(layers.mean(states, name="loss"))
    clone = main.clone(for_inference=True)
    assert types(clone) == ["scan", "mean"]
    assert len(clone.blocks) == 2
    assert [op.attrs["training"] for op in clone.blocks[1].ops if op.type == "dropout"] == [False]
