"""Training with passes uses fewer operators and is bitwise identical to training without passes."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.plugin import Package
from opwright_nn import layers


def digits(x, y):
    """The network of examples/train_program.py."""
    h = layers.fc(x, size=100, activation="relu")
    logits = layers.fc(h, size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
    nn.optimizer.Adam(1e-3).minimize(loss)
    return loss


def normed(x, y):
    h = layers.batch_norm(layers.fc(layers.reshape(x, [None, 8, 8]), 16))
    h = layers.dropout(layers.layer_norm(layers.relu(layers.flatten(h))), 0.3)
    loss = layers.mean(layers.cross_entropy(layers.fc(h, 10, activation="softmax"), y))
    nn.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return loss


def branched(x, y):
    h = layers.fc(x, 10)
    flag = ow.ops.less(layers.mean(h), layers.mean(x))
    out = layers.cond(flag, lambda: layers.reshape(h, [None, 10]), lambda: layers.tanh(h))
    loss = layers.mean(layers.softmax_with_cross_entropy(layers.reshape(out, [None, 10]), y))
    nn.optimizer.SGD(0.1).minimize(loss)
    return loss


def embedded(x, y):
    h = layers.embedding(layers.reshape(y, [None]), [10, 8])
    loss = layers.mean(layers.fc(layers.concat([h, layers.fc(x, 8)], axis=1), 1))
    nn.optimizer.SGD(0.1).minimize(loss)
    return loss


def pooled(x, y):
    """The pooling windows overlap, so one element can be the maximum of several windows."""
    return _pooled(x, y, "relu", kernel=3)


def overlapping(x, y):
    return _pooled(x, y, "tanh", kernel=3)


def squashed(x, y):
    return _pooled(x, y, "sigmoid", kernel=2)


def _pooled(x, y, activation, kernel):
    h = layers.reshape(x, [None, 1, 8, 8])
    h = layers.conv2d(h, filters=6, kernel=3, activation=activation)
    h = layers.max_pool2d(h, kernel=kernel, strides=2)
    logits = layers.fc(layers.flatten(h), 10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
    nn.optimizer.SGD(0.1).minimize(loss)
    return loss


def train(build, passes, batches=(4, 4, 1, 7)):
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", shape=[None, 64])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        loss = build(x, y)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    step = network.compile(feed=["x", "y"], fetch=[loss], scope=scope, passes=passes)
    rng = np.random.default_rng(0)
    losses = [
        step(x=rng.random((n, 64), np.float32), y=rng.integers(0, 10, (n, 1)))[0].item()
        for n in batches
    ]
    values = {
        v.name: scope.find_var(v.name).numpy()
        for v in main.global_block().vars.values()
        if v.persistable
    }
    return losses, values, network.placement()


@pytest.mark.parametrize("build", [digits, normed, branched, embedded, pooled, squashed])
@pytest.mark.parametrize("name", ["remove_identities", "shrink_activation_grad"])
def test_training_is_bitwise_identical_with_and_without_passes(build, name):
    losses, values, _ = train(build, [name])
    plain_losses, plain_values, _ = train(build, [])
    assert losses == plain_losses
    assert values.keys() == plain_values.keys()
    for name, value in plain_values.items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("build", "batch", "lost"),
    [
        (digits, 4, {0}),  # nothing to remove
        (digits, 1, {2}),  # the two gradients of biases sum over one row
        (normed, 4, {4, 5}),  # five if no kernel supports all of fc
        (branched, 4, {2}),
        (embedded, 4, {1}),
    ],
)
def test_passes_remove_ineffective_operators_from_a_step(build, batch, lost):
    _, _, plain = train(build, [], [batch])
    _, _, passed = train(build, ["remove_identities"], [batch])
    assert plain.operators - passed.operators in lost


@pytest.mark.parametrize(
    ("build", "op_type", "after"),
    [
        (pooled, "relu_grad", (4, 6, 2, 2)),
        (squashed, "sigmoid_grad", (4, 6, 3, 3)),
        (overlapping, "tanh_grad", (4, 6, 6, 6)),  # an element can be the maximum twice
    ],
)
def test_the_activation_gradient_is_computed_only_at_the_pooling_maxima(build, op_type, after):
    """Without the pass, the gradient is computed for all elements of the convolution."""
    seen = []

    def spy(graph):
        seen.append([op.outputs[0][0].meta.shape for op in graph.of_type(op_type)])

    context = ow.Context.discover()
    package = Package("spy", "opwright-spy", "1.0")
    context.passes.add("spy", phase="memory", function=spy, package=package)
    with ow.context_guard(context):
        train(build, ["spy"], [4])
        train(build, ["shrink_activation_grad", "spy"], [4])
    before, shrunk = [shapes for shapes in seen if shapes]
    assert (before, shrunk) == ([(4, 6, 6, 6)], [after])
