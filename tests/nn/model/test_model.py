"""Model: the results of a step."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers


def reference_step(weights, images, labels, rate):
    """Take one step of gradient descent in float64; return the loss and the new parameters."""
    w0, b0, w1, b1 = (weights[name].astype(np.float64) for name in sorted(weights, key=_order))
    hidden = 1 / (1 + np.exp(-(images @ w0 + b0)))
    scores = np.exp(hidden @ w1 + b1)
    prob = scores / scores.sum(axis=1, keepdims=True)
    rows = np.arange(len(images))
    loss = -np.log(prob[rows, labels[:, 0]]).mean()
    grad = prob.copy()
    grad[rows, labels[:, 0]] -= 1
    grad /= len(images)
    back = (grad @ w1.T) * hidden * (1 - hidden)
    grads = [images.T @ back, back.sum(0), hidden.T @ grad, grad.sum(0)]
    return loss, [old - rate * grad for old, grad in zip((w0, b0, w1, b1), grads, strict=True)]


def _order(name):
    return (name.split("_")[1], name.split("_")[2] != "w")


def test_a_step_performs_gradient_descent(tiny):
    model, _ = tiny.make()
    model.initialize_parameters(seed=1, img=tiny.images)
    before = tiny.parameters(model)
    tiny.fill(model)
    (value,) = model.run()
    loss, expected = reference_step(before, tiny.images, tiny.labels, 0.5)
    assert value == pytest.approx(loss, rel=1e-5)
    after = tiny.parameters(model)
    for name, new in zip(sorted(after, key=_order), expected, strict=True):
        np.testing.assert_allclose(after[name], new, rtol=1e-4, atol=1e-6)


def test_a_network_learns(tiny):
    model, prob = tiny.make(width=20)
    model.initialize_parameters(seed=1)
    tiny.fill(model)
    losses = [float(model.run()[0]) for _ in range(300)]
    assert losses[-1] < 0.1 * losses[0]
    assert nn.metrics.accuracy(model.predict(prob, img=tiny.images), tiny.labels) == 1.0


def test_run_returns_the_loss_and_then_each_metric(tiny):
    model = nn.Model()
    scores = model.fc_layer(input="img", size=3)
    model.accuracy(scores, "label")
    loss = model.mean(model.softmax_with_cross_entropy(scores, "label"))
    model.accuracy(scores, "label", k=3)
    model.backward(loss)
    model.adam(learning_rate=0.01)
    tiny.fill(model)
    value, first, second = model.run()
    assert value.shape == ()
    assert first in [np.float32(i / 6) for i in range(7)]
    assert second == 1.0


def test_gradients_can_be_looked_up_by_parameter(tiny):
    model, _ = tiny.make()
    assert [(p.name, g.name) for p, g in model.param_grads] == [
        ("fc_0_w_param", "fc_0_w_param_grad"),
        ("fc_0_b_param", "fc_0_b_param_grad"),
        ("fc_1_w_param", "fc_1_w_param_grad"),
        ("fc_1_b_param", "fc_1_b_param_grad"),
    ]


@pytest.mark.parametrize(
    "optimize",
    [
        lambda model: model.sgd(0.1, clip=nn.clip.ClipByGlobalNorm(1.0)),
        lambda model: model.momentum(0.1, mu=0.5, nesterov=True),
        lambda model: model.adam(0.01, regularizer=nn.regularizer.L2(1e-4)),
        lambda model: model.adamw(0.01, weight_decay=0.1),
        lambda model: model.optimize("adam", learning_rate=0.01),
        lambda model: model.optimize(nn.optimizer.SGD(0.1)),
        lambda model: model.sgd(0.1, clip=nn.clip.ClipByNorm(0.5)),
        lambda model: model.optimize("rmsprop", momentum=0.5, centered=True),
        *(lambda model, kind=kind: model.optimize(kind) for kind in nn.optimizer.OPTIMIZERS),
    ],
)
def test_every_optimizer_lowers_the_loss_with_deferred_shapes(tiny, optimize):
    model, prob = tiny.make(optimize=False)
    loss = model.mean(model.cross_entropy(prob, "label"))
    model.backward(loss)
    assert optimize(model) is model.optimizer
    tiny.fill(model)
    losses = [float(model.run()[0]) for _ in range(40)]
    assert losses[-1] < losses[0]


def test_the_learning_rate_can_change_between_steps(tiny):
    model, _ = tiny.make()
    tiny.fill(model)
    model.run()
    model.set_learning_rate(0.0)
    before = tiny.parameters(model)
    model.run()
    after = tiny.parameters(model)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name])


def test_operators_that_the_user_adds_run_with_each_step(tiny):
    model, _ = tiny.make()
    block = model.program.global_block()
    block.create_var("steps", [1], "float32", persistable=True)
    one = block.append_op("fill", attrs={"shape": [1], "value": 1.0}).output("out")[0]
    model.scope.var("steps").set(np.zeros(1, np.float32))
    tiny.fill(model)
    model.run()
    model.network.add_op(ow.Operator("add", x="steps", y=one, out="steps"))
    for _ in range(3):
        model.run()
    assert model.scope.var("steps").numpy() == [3.0]


def test_keep_stores_every_variable_in_the_same_step(tiny):
    inspected, _ = tiny.make()
    plain, _ = tiny.make()
    for model in (inspected, plain):
        model.initialize_parameters(seed=1, img=tiny.images)
        tiny.fill(model)
    np.testing.assert_allclose(inspected.run(keep=True)[0], plain.run()[0], rtol=1e-6)
    for name, value in tiny.parameters(plain).items():
        np.testing.assert_allclose(inspected.scope.var(name).numpy(), value, rtol=1e-6)
    for name in ("fc_0_out", "fc_1_out", "fc_0_w_param_grad", "mean_0_out"):
        assert inspected.scope.var(name).is_set
        assert plain.scope.find_var(name) is None
    np.testing.assert_array_equal(inspected.scope.var("img").numpy(), tiny.images)


def test_layers_are_appended_within_the_guard(tiny):
    model = nn.Model()
    with model.guard():
        hidden = layers.tanh(model.fc_layer("img", 4))
        hidden = layers.layer_norm(hidden)
    loss = model.mean(model.softmax_with_cross_entropy(model.fc_layer(hidden, 3), "label"))
    model.backward(loss)
    model.sgd(0.1)
    tiny.fill(model)
    losses = [float(model.run()[0]) for _ in range(30)]
    assert losses[-1] < losses[0]


def test_a_model_with_many_layer_methods_trains(tiny):
    model = nn.Model()
    table = model.embedding("word", size=(10, 4))
    hidden = model.concat([model.fc_layer("img", 4), table])
    hidden = model.batch_norm(hidden, activation="relu")
    hidden = model.dropout(model.layer_norm(hidden), 0.1)
    scores = model.fc_layer(hidden, 3)
    loss = model.mean(model.softmax_with_cross_entropy(scores, "target", soft_label=True))
    model.backward(loss)
    model.adam(0.01)
    model.fill("img", tiny.images)
    model.fill("word", np.array([1, 9, 0, 3, 3, 7]))
    model.fill("target", np.eye(3, dtype=np.float32)[tiny.labels[:, 0]])
    losses = [float(model.run()[0]) for _ in range(60)]
    assert losses[-1] < 0.7 * losses[0]


def test_run_calls_the_compiled_step_once(tiny, monkeypatch):
    model, _ = tiny.make()
    tiny.fill(model)
    model.run()
    answer = []

    def step(**feeds):
        answer.append(feeds)
        return answer

    monkeypatch.setattr(model, "_step", step)
    assert model.run() is answer
    assert sorted(answer[0]) == ["img", "label"]


def test_an_input_can_be_any_array_with_dlpack(tiny):
    class Foreign:
        shape = tiny.images.shape

        def __dlpack__(self, **options):
            return tiny.images.__dlpack__(**options)

        def __dlpack_device__(self):
            return tiny.images.__dlpack_device__()

    values = []
    for images in (tiny.images, Foreign(), tiny.images.tolist()):
        model, _ = tiny.make()
        model.fill("img", images)
        model.fill("label", tiny.labels)
        values.append(float(model.run()[0]))
    assert values[0] == values[1] == values[2]
