"""Copies of a Model by pickle and deepcopy, in the same and in another process."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import FeedError
from opwright_nn import initializer, layers, regularizer


def by_pickle(value):
    return pickle.loads(pickle.dumps(value))


@pytest.fixture(params=[by_pickle, copy.deepcopy])
def duplicate(request):
    """Return each function that copies a model: by pickle, and by deepcopy."""
    return request.param


def losses(tiny, model, count=3):
    """Return the losses of steps on the samples."""
    tiny.fill(model)
    return [float(model.run()[0]) for _ in range(count)]


def deep(tiny):
    """A model with every kind of deferred shape, and with dropout."""
    model = nn.Model()
    hidden = model.fc_layer("img", 6, activation="relu")
    with model.guard():
        hidden = layers.layer_norm(layers.batch_norm(hidden))
    hidden = model.concat([model.dropout(hidden), model.layer_norm("img")])
    prob = model.fc_layer(hidden, 3, activation="softmax")
    model.backward(model.mean(model.cross_entropy(prob, "label")))
    model.adam(0.1, regularizer=regularizer.L2(0.01), clip=nn.clip.ClipByGlobalNorm(1.0))
    return model


@pytest.mark.parametrize("n_steps", [0, 2])
def test_a_duplicate_continues_like_the_original_but_independently(tiny, duplicate, n_steps):
    model = deep(tiny)
    if n_steps:
        losses(tiny, model, n_steps)
    else:
        model.initialize_parameters(seed=3)  # it waits for the first batch
    twin = duplicate(model)
    assert str(twin.program) == str(model.program)
    assert [g.name for _, g in twin.param_grads] == [g.name for _, g in model.param_grads]
    assert twin.param_grads[0][0] is twin.parameters[0]
    expected = losses(tiny, model)
    assert losses(tiny, twin) == expected
    assert twin.scope is not model.scope


def test_the_inputs_of_a_duplicate_are_not_filled(tiny, duplicate):
    model, prob = tiny.make()
    losses(tiny, model)
    twin = duplicate(model)
    np.testing.assert_array_equal(
        twin.predict(prob.name, img=tiny.images), model.predict(prob, img=tiny.images)
    )
    with pytest.raises(FeedError, match="every input must be filled, got no value for 'img'"):
        twin.run()


def test_layers_can_be_appended_to_a_duplicate(tiny, duplicate):
    model, _ = tiny.make(optimize=False)
    twin = duplicate(model)
    for each in (model, twin):
        each.fc_layer("fc_1_out", 2)
        each.backward("mean_0_out")
        each.momentum(0.1)
    assert str(twin.program) == str(model.program)
    assert str(twin.startup_program) == str(model.startup_program)
    assert losses(tiny, twin) == losses(tiny, model)
    twin.set_learning_rate(0.5)
    assert twin.scope.var("learning_rate").numpy() == [0.5]
    assert model.scope.var("learning_rate").numpy() == np.float32([0.1])


def test_a_pickled_model_can_be_used_in_another_process(tiny, tmp_path):
    model = deep(tiny)
    losses(tiny, model)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.savez(tmp_path / "feeds.npz", img=tiny.images, label=tiny.labels)
    script = (
        "import pickle, sys, numpy as np\n"
        "model = pickle.load(open(sys.argv[1] + '/model.pickle', 'rb'))\n"
        "feeds = np.load(sys.argv[1] + '/feeds.npz')\n"
        "np.save(sys.argv[1] + '/prob.npy', model.predict('fc_1_out', img=feeds['img']))\n"
        "for name in feeds: model.fill(name, feeds[name])\n"
        "np.save(sys.argv[1] + '/losses.npy', [model.run()[0] for _ in range(3)])\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    prediction = np.load(tmp_path / "prob.npy")
    np.testing.assert_array_equal(prediction, model.predict("fc_1_out", img=tiny.images))
    np.testing.assert_array_equal(np.load(tmp_path / "losses.npy"), losses(tiny, model))


# -- Parameters created without a layer -----------------------------------------------------------


def with_parameter(shape=(8, 3), **options):
    """A model whose weight is created without a layer."""
    model = nn.Model()
    with model.guard():
        block = model.program.global_block()
        w = block.create_parameter("w", shape, **options)
        model.backward(layers.mean(ow.ops.matmul(layers.data("img", [None, 8]), w)))
    model.sgd(0.5)
    return model


def test_a_parameter_with_an_initializer_is_initialized(tiny):
    model = with_parameter(initializer=initializer.Constant(2.0))
    model.initialize_parameters(seed=1)
    np.testing.assert_array_equal(model.scope.var("w").numpy(), np.full((8, 3), 2, np.float32))
    model.fill("img", tiny.images)
    model.run()
    assert not (model.scope.var("w").numpy() == 2).any()
    model.initialize_parameters()
    assert (model.scope.var("w").numpy() == 2).all()


def test_a_parameter_with_an_initializer_is_initialized_by_the_first_step(tiny):
    weights = []
    for _ in range(2):
        model = with_parameter(initializer=initializer.Normal())
        model.fill("img", tiny.images)
        model.run()
        weights.append(model.scope.var("w").numpy())
    np.testing.assert_array_equal(*weights)
    assert np.unique(weights[0]).size > 20


def test_an_existing_value_is_not_overwritten(tiny):
    model = with_parameter(initializer=initializer.Constant(2.0))
    model.fill("w", np.ones((8, 3), np.float32))
    model.fill("img", np.zeros_like(tiny.images))
    model.run()
    assert (model.scope.var("w").numpy() == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"initializer": 0.1},
            "parameter 'w': initializer must be an Initializer",
        ),
        (
            {"initializer": initializer.Normal(), "shape": (8, None)},
            "parameter 'w': its shape must be known to initialize it",
        ),
    ],
)
def test_an_unusable_initializer_is_refused(options, message):
    model = with_parameter(**options)
    with pytest.raises((ow.errors.AttributeTypeError, ow.errors.ShapeError), match=message):
        model.initialize_parameters()
