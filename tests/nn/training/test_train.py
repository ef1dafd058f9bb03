"""Tests that nn.train matches a manual loop bitwise, and tests its reports, data and errors."""

from __future__ import annotations

import io

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FeedError,
    ProgramError,
    ShapeError,
)
from opwright_nn import layers


def by_hand(model, data, epochs, **options):
    """Run the loop that nn.train replaces; return the mean loss of each epoch, and all losses."""
    losses, sizes = [], []
    batches = nn.batches(data, epochs=epochs, **options)
    for x, y in batches:
        model.fill("x", x)
        model.fill("y", y)
        losses.append(float(model.run()[0]))
        sizes.append(len(x))
    n = batches.per_epoch
    return [
        sum(loss * size for loss, size in zip(losses[i : i + n], sizes[i : i + n], strict=True))
        / sum(sizes[i : i + n])
        for i in range(0, len(losses), n)
    ]


def test_train_is_bitwise_identical_to_a_manual_loop(small, train):
    own, other = small.make()[0], small.make()[0]
    means = by_hand(own, small.data, 3, size=4, seed=5)
    history = train(other, small.data, 3, batch_size=4, seed=5)
    assert small.variables(other) == small.variables(own)
    assert history["loss"] == means
    assert history["epoch"] == [1, 2, 3]
    assert history["steps"] == [6, 12, 18]
    assert history.stop_reason == "finished"
    assert len(history) == 3


def test_rows_are_shuffled_differently_in_each_epoch_by_default(small, train):
    orders = []

    def step(x, y):
        orders.append(y[:, 0].tolist())
        return 0.0

    rows = (small.x, np.arange(22)[:, None])
    train(step, rows, 2, batch_size=22)
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(22))
    train(step, rows, 1, batch_size=22, shuffle=False)
    assert orders[2] == list(range(22))


@pytest.mark.parametrize(
    "make",
    [
        lambda d: {"y": d[1], "x": d[0]},
        lambda d: nn.batches(d, size=4, seed=5),
        lambda d: nn.batches({"y": d[1], "x": d[0]}, size=4, seed=5),
    ],
)
def test_training_on_arrays_dicts_and_batches_gives_the_same_results(small, train, make):
    own, other = small.make()[0], small.make()[0]
    train(own, small.data, 2, batch_size=4, seed=5)
    data = make(small.data)
    options = {"batch_size": 4, "seed": 5} if isinstance(data, dict) else {}
    train(other, data, 2, **options)
    assert small.variables(other) == small.variables(own)


def test_lists_and_functions_provide_batches_in_each_epoch(small, train):
    listed = list(nn.batches(small.data, size=4, shuffle=False))
    own, other, third = (small.make()[0] for _ in range(3))
    train(own, small.data, 2, batch_size=4, shuffle=False)
    train(other, listed, 2)
    train(third, lambda: iter(listed), 2)
    assert small.variables(other) == small.variables(third) == small.variables(own)


def test_a_compiled_step_and_a_function_are_trained(small, train):
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", [None, 5])
        y = layers.data("y", [None, 1], dtype="int64")
        loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(x, size=3), y))
        nn.optimizer.SGD(0.5).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = ow.Network(main.global_block()).compile(feed=["x", "y"], fetch=[loss], scope=scope)
    history = train(step, small.data, 5, batch_size=4)
    assert history["loss"][-1] < history["loss"][0]

    def call(x, y):
        return step(x=x, y=y)

    assert train(call, small.data, 1, batch_size=4)["loss"][0] < history["loss"][-1]


def test_validation_uses_neither_dropout_nor_updates(small, train):
    model, scores, loss = small.make()
    held_out = (small.x[:7], small.y[:7])
    metrics = {"accuracy": nn.metrics.Accuracy(scores, "y"), "again": loss}
    history = train(model, small.data, 2, batch_size=4, validation=held_out, metrics=metrics)
    expected = float(model.predict(loss, x=held_out[0], y=held_out[1]))
    np.testing.assert_allclose(history["validation_loss"][-1], expected, rtol=1e-6)
    np.testing.assert_allclose(history["again"][-1], expected, rtol=1e-6)
    right = nn.metrics.accuracy(model.predict(scores, x=held_out[0]), held_out[1])
    assert history["accuracy"][-1] == right
    twin = small.make()[0]
    train(twin, small.data, 2, batch_size=4)
    assert small.variables(twin) == small.variables(model)


def test_without_validation_metrics_are_computed_from_the_training_data(small, train):
    model, scores, _ = small.make()
    history = train(
        model, small.data, 1, batch_size=4, metrics={"accuracy": nn.metrics.Accuracy(scores, "y")}
    )
    right = nn.metrics.accuracy(model.predict(scores, x=small.x), small.y)
    assert history["accuracy"] == [pytest.approx(right)]
    assert "validation_loss" not in history.columns


def test_model_metrics_are_averaged_over_the_steps(small, train):
    model = nn.Model()
    scores = model.fc_layer("x", size=3)
    model.backward(model.mean(model.softmax_with_cross_entropy(scores, "y")))
    accuracy = model.accuracy(scores, "y")
    model.sgd(0.0)
    history = train(model, small.data, 1, batch_size=4, validation=small.data)
    right = nn.metrics.accuracy(model.predict(scores, x=small.x), small.y)
    np.testing.assert_allclose(history[accuracy.name], [right], rtol=1e-6)
    np.testing.assert_allclose(history[f"validation_{accuracy.name}"], [right], rtol=1e-6)


def test_progress_lines_report_losses_metrics_and_speed(small, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    model, scores, _ = small.make()
    metrics = {"accuracy": nn.metrics.Accuracy(scores, "y")}
    nn.train(model, small.data, 2, validation=small.data, metrics=metrics)
    lines = screen.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("epoch 2/2  loss ")
    for word in ("validation_loss", "accuracy", "learning_rate 0.05", "samples/s"):
        assert word in lines[1]


def test_a_terminal_shows_the_steps_of_the_epoch(small, monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    nn.train(small.make()[0], small.data, 1, batch_size=4)
    assert "\repoch 1/1  step 1/6  loss " in screen.getvalue()
    assert screen.getvalue().endswith("samples/s\n")


def test_a_notebook_shows_the_steps_in_the_output_of_the_cell(small, monkeypatch):
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    screen, errors = stream(), io.StringIO()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", errors)
    nn.train(small.make()[0], small.data, 1, batch_size=4)
    assert "\repoch 1/1  step 1/6  loss " in screen.getvalue()
    assert not errors.getvalue()


def test_zero_epochs_give_an_empty_history(small, train):
    model = small.make()[0]
    history = train(model, small.data, 0)
    assert len(history) == 0
    assert history.columns == []


def test_accumulation_and_clipping_belong_to_the_optimizer(small, train):
    def make():
        inner = nn.optimizer.SGD(0.5, clip=nn.clip.ClipByGlobalNorm(0.05))
        return small.make(nn.optimizer.Accumulate(inner, steps=3))[0]

    own, other = make(), make()
    by_hand(own, small.data, 2, size=4, seed=0)
    train(other, small.data, 2, batch_size=4)
    assert small.variables(other) == small.variables(own)


@pytest.mark.parametrize(
    ("change", "error", "rule"),
    [
        ({"epoch": 3}, AttributeTypeError, "got 'epoch'; did you mean 'epochs'"),
        ({"batchsize": 3}, AttributeTypeError, "got 'batchsize'; did you mean 'batch_size'"),
        ({"callback": []}, AttributeTypeError, "got 'callback'; did you mean 'callbacks'"),
        ({"validation_data": []}, AttributeTypeError, "did you mean 'validation'"),
        ({"epochs": -1}, AttributeValueError, "train: epochs must be"),
        ({"epochs": "3"}, AttributeTypeError, "train: epochs must be"),
        ({"batch_size": 0}, AttributeValueError, "train: batch_size must be"),
        ({"seed": -1}, AttributeValueError, "seed must be"),
        ({"progress": 1}, AttributeTypeError, "train: progress must be"),
        ({"resume": "lates"}, AttributeValueError, "got 'lates'; did you mean 'latest'"),
        ({"resume": "latest"}, AttributeValueError, "resume needs the callback Checkpoint"),
        ({"callbacks": ["stop"]}, AttributeTypeError, r"callbacks\[0\] must be a Callback"),
        ({"callbacks": 3}, AttributeTypeError, "callbacks must be a list of callbacks"),
        ({"metrics": ["accuracy"]}, AttributeTypeError, "metrics must map names to metrics"),
        ({"metrics": {"a": 3}}, AttributeTypeError, r"metrics\['a'\] must be a Metric"),
        (
            {"metrics": {"a": nn.metrics.Accuracy()}},
            AttributeTypeError,
            r"metrics\['a'\] must name its inputs.* nn.metrics.Accuracy\(scores, 'label'\)",
        ),
        ({"metrics": {"loss": "fc_1"}}, LookupError, "fc_1"),
        ({"data": 3}, AttributeTypeError, "data must be arrays, nn.batches, an iterable"),
        ({"data": {"x": 0, "z": 1}}, ShapeError, "an axis of rows"),
        ({"model": 3}, AttributeTypeError, "model must be a Model or a step"),
        ({"model": nn.Model()}, ProgramError, "the model must have a loss, got none"),
        (
            {"callbacks": nn.EarlyStopping("acuracy"), "metrics": {"accuracy": "mean_0"}},
            LookupError,
            "mean_0",
        ),
        ({"callbacks": nn.EarlyStopping("los")}, AttributeValueError, "'los'; did you mean 'loss'"),
    ],
)
def test_the_error_names_a_wrong_argument(small, train, change, error, rule):
    arguments = {"model": small.make()[0], "data": small.data, "epochs": 1} | change
    with pytest.raises(error, match=rule):
        train(**arguments)


def test_metric_names_must_be_distinct(small, train):
    model, scores, _ = small.make()
    with pytest.raises(AttributeValueError, match="metrics must have distinct names, got 'lo"):
        train(model, small.data, 1, metrics={"loss": nn.metrics.Accuracy(scores, "y")})


@pytest.mark.parametrize(
    ("make", "error", "rule"),
    [
        (lambda d: (d[0],), FeedError, "one array for each input, got 1 for the inputs 'x', 'y'"),
        (lambda d: {"x": d[0], "yy": d[1]}, FeedError, "got 'yy'; did you mean 'y'"),
        (lambda d: {"x": d[0]}, FeedError, "a batch must have every input, got none for 'y'"),
        (lambda d: [], ShapeError, "at least one array"),
        (lambda d: lambda: iter(()), AttributeValueError, "at least one batch, got none"),
        (lambda d: iter([d]), AttributeTypeError, "got an iterator, which yields them once"),
    ],
)
def test_the_error_describes_data_that_does_not_match(small, train, make, error, rule):
    with pytest.raises(error, match=f"(train|batches): .*{rule}"):
        train(small.make()[0], make(small.data), 2)


def test_arguments_for_arrays_are_refused_with_batches(small, train):
    batches = nn.batches(small.data, size=4)
    with pytest.raises(AttributeValueError, match="batch_size applies only to arrays"):
        train(small.make()[0], batches, 1, batch_size=4)


def test_validation_is_refused_for_a_step_without_a_model(small, train):
    with pytest.raises(AttributeValueError, match="validation and metrics need a Model"):
        train(lambda x, y: 0.0, small.data, 1, validation=small.data)


def test_a_loss_that_is_not_a_scalar_raises(small, train):
    with pytest.raises(ShapeError, match=r"'loss' must be a single number .* got shape \[4\]"):
        train(lambda x, y: np.zeros(4), small.data, 1, batch_size=4)
