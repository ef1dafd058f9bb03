"""A model accepts the dtypes of its inputs and, with cast, any numeric dtype."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, FeedError

X = np.random.default_rng(0).normal(size=(24, 3))
Y = X @ np.array([[1.0], [2.0], [3.0]])


def make(**options):
    model = nn.Model(**options)
    out = model.fc_layer(model.input("x", [None, 3]), 1)
    loss = model.mse(out, model.input("y", [None, 1]), reduction="mean")
    model.minimize(loss, nn.optimizer.SGD(0.1))
    model.initialize_parameters(seed=1)
    return model, out


def run(x, y, **options):
    """Return the results of training, of a step and of a prediction with these arrays, as bytes."""
    model, out = make(**options)
    history = nn.train(model, (x, y), 2, batch_size=8, validation=(x, y), progress=False)
    model.fill("x", x)
    model.fill("y", y)
    step = model.run()[0]
    again = nn.train(model, lambda: iter([(x, y)] * 2), 1, progress=False)
    losses = [history["loss"], history["validation_loss"], again["loss"]]
    return [*losses, step.tolist(), model.predict(out, x=x).tolist()]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "bool"])
def test_arrays_that_the_input_dtype_can_represent_are_converted(dtype):
    x, y = np.abs(X * 3).astype(dtype), np.abs(Y).astype(dtype)
    assert run(x, y) == run(x.astype(np.float32), y.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_arrays_that_the_input_dtype_cannot_represent_require_cast(dtype):
    x, y = (X * 3).astype(dtype), Y.astype(dtype)
    assert run(x, y, cast=True) == run(x.astype(np.float32), y.astype(np.float32))
    model, out = make()
    rule = rf"'x': dtype must be float32, got {dtype}; .*, or create the model by nn.Model"
    for call in (
        lambda: nn.train(model, (x, y), 1, progress=False),
        lambda: model.fill("x", x),
        lambda: model.predict(out, x=x),
    ):
        with pytest.raises(FeedError, match=rule):
            call()


def test_lists_are_converted_to_the_input_dtype():
    single = X.astype(np.float32), Y.astype(np.float32)
    model, other = make()[0], make()[0]
    lists = tuple(array.tolist() for array in single)
    plain = nn.train(model, single, 1, batch_size=8, progress=False)
    assert nn.train(other, lists, 1, batch_size=8, progress=False)["loss"] == plain["loss"]


def test_labels_can_have_any_integer_dtype():
    def losses(labels, **options):
        model = nn.Model(**options)
        scores = model.fc_layer(model.input("x", [None, 3]), 2)
        loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
        model.minimize(loss, nn.optimizer.SGD(0.1))
        data = {"x": X.astype(np.float32), "label": labels}
        return nn.train(model, data, 1, progress=False)["loss"]

    classes = np.arange(24) % 2
    expected = losses(classes)
    assert losses(classes.astype(np.int32)) == losses(classes.tolist()) == expected
    assert losses(classes.astype(np.float32), cast=True) == expected
    with pytest.raises(
        FeedError, match="train: 'label' must be numbers whole, in that of int64, got 0.5"
    ):
        losses(classes + 0.5, cast=True)


def test_cast_refuses_values_outside_the_input_dtype():
    model, out = make(cast=True)
    for wrong, rule in ((X * 1e300, "in the range of float32, got"), (X.astype(str), "")):
        with pytest.raises(FeedError, match=f"Model.predict: 'x'.*{rule}"):
            model.predict(out, x=wrong)
    infinite = X.copy()
    infinite[0] = np.inf
    assert not np.isfinite(model.predict(out, x=infinite)[0]).any()
    assert np.isfinite(copy.deepcopy(model).predict(out, x=X)).all()
    with pytest.raises(AttributeTypeError, match="Model: cast must be True or False"):
        nn.Model(cast="yes")
