"""Wrong calls of a Model raise errors that name the mistake and a fix, and change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FeedError,
    KernelError,
    OperatorNotFoundError,
    ProgramError,
    ShapeError,
    VariableNotFoundError,
)
from opwright_nn import layers

IMAGES = np.ones((6, 8), np.float32)
LABELS = np.ones((6, 1), np.int64)


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (
            lambda m: m.fill("imgg", IMAGES),
            FeedError,
            "Model.fill: .*'imgg'; did you mean 'img'",
        ),
        (
            lambda m: m.fill("fc_1_out", IMAGES),
            FeedError,
            "'fc_1_out', which the network computes",
        ),
        (
            lambda m: m.fill(3, IMAGES),
            FeedError,
            "Model.fill: the name must be the name of an input",
        ),
        (
            lambda m: m.fill("img", IMAGES.astype("f8")),
            FeedError,
            r"float64; pass np.asarray\(img, 'f",
        ),
        (lambda m: m.fill("label", LABELS * 1.0), FeedError, "'label': dtype must be int64"),
        (
            lambda m: m.fill("label", [[0.5]]),
            FeedError,
            "'label': must be an integer to become int64, got 0.5",
        ),
        (lambda m: m.fill("img", np.ma.masked_array(IMAGES)), FeedError, "'img': .* masked array"),
        (
            lambda m: m.fill("img", "cat"),
            FeedError,
            "'img': must be an array of numbers, got 'cat'",
        ),
        (lambda m: m.fill("img", [[1], [2, 3]]), FeedError, "'img': must be an array of numbers"),
        (lambda m: m.fill("fc_1_b_param", np.zeros(4, "f")), ShapeError, r"shape \[3\], got \[4\]"),
        (
            lambda m: m.run(),
            FeedError,
            r"every input must be filled, .* model.fill\('img', array\)",
        ),
        (lambda m: m.run(keep=1), AttributeTypeError, "Model.run: keep must be True or False"),
        (
            lambda m: m.predict("prob", img=IMAGES),
            VariableNotFoundError,
            "Model.predict: no such",
        ),
        (
            lambda m: m.predict(3, img=IMAGES),
            AttributeTypeError,
            "variable must be a list of variables",
        ),
        (lambda m: m.predict("fc_1_out", imgs=IMAGES), FeedError, "did you mean 'img'"),
        (lambda m: m.predict("fc_1_out"), FeedError, "depends on the input 'img', got no value"),
        (
            lambda m: m.predict("fc_1_out", img=IMAGES, label=LABELS),
            FeedError,
            "got 'label'",
        ),
        (
            lambda m: m.predict("fc_1_out", img=IMAGES),
            ProgramError,
            "all parameters must have val",
        ),
        (
            lambda m: m.initialize_parameters(img=IMAGES[0]),
            ShapeError,
            "more than num_flatten_dims",
        ),
        (lambda m: m.backward("mean_0_out"), ProgramError, "a model can have only one loss"),
        (
            lambda m: m.set_learning_rate("0.1"),
            AttributeTypeError,
            "set_learning_rate: value must be",
        ),
        (lambda m: m.initialize_parameters("1"), AttributeTypeError, "seed must be an int"),
        (lambda m: m.initialize_parameters(-1), AttributeValueError, "seed must be an int of at"),
        (lambda m: m.initialize_parameters(imgs=IMAGES), FeedError, "did you mean 'img'"),
        (
            lambda m: m.initialize_parameters(fc_0_b_param=IMAGES[0, :5]),
            FeedError,
            "must be the name of an input that a layer reads, got 'fc_0_b_param'",
        ),
        (lambda m: m.optimize(0.1), AttributeTypeError, "optimizer must be an Optimizer, got 0.1"),
        (lambda m: m.optimize("sdg"), AttributeValueError, "did you mean 'sgd'"),
        (lambda m: m.fc_layer(3, 5), AttributeTypeError, "fc: input must be a variable or"),
        (lambda m: m.fc_layer("new", 0), AttributeValueError, "size must be an int of at least 1"),
        (lambda m: m.mean(None), AttributeTypeError, "mean: input must be a variable or a var"),
        (lambda m: m.concat("img"), AttributeTypeError, "concat: input must be a list"),
        (lambda m: m.cross_entropy("img", 3), AttributeTypeError, "label must be a variable or"),
        (lambda m: m.input(""), AttributeValueError, "data: name must be a string"),
    ],
)
def test_the_error_names_a_wrong_call_and_nothing_changes(tiny, call, error, rule):
    model, _ = tiny.make()
    before = str(model.program), str(model.startup_program), model.scope.names()
    with pytest.raises(error, match=rule):
        call(model)
    assert (str(model.program), str(model.startup_program), model.scope.names()) == before
    tiny.fill(model)
    assert np.isfinite(model.run()[0])


def test_an_optimizer_requires_backward_first(tiny):
    model, _ = tiny.make(optimize=False)
    with pytest.raises(ProgramError, match=r"call model.backward\(loss\) first"):
        model.sgd(0.1)
    with pytest.raises(ProgramError, match="the model must have an optimizer, got none"):
        model.set_learning_rate(0.1)


def test_running_a_model_without_a_loss_and_a_metric_raises(tiny):
    model, _ = tiny.make(optimize=False)
    tiny.fill(model)
    with pytest.raises(ProgramError, match="Model.run: there must be something to return"):
        model.run()


def test_a_later_batch_of_a_wrong_width_is_refused_and_the_model_stays_usable(tiny):
    model, _ = tiny.make()
    tiny.fill(model)
    model.run()
    model.fill("img", tiny.images[:, :7])
    with pytest.raises(FeedError, match=r"'img': shape must be \(\?, 8\), got \(6, 7\)"):
        model.run()
    tiny.fill(model)
    assert np.isfinite(model.run()[0])


@pytest.mark.parametrize(
    ("options", "rule"),
    [({"scope": 3}, "scope must be a Scope"), ({"device": 3}, "device must be")],
)
def test_the_error_names_a_bad_argument_of_a_model(options, rule):
    with pytest.raises(AttributeTypeError, match=f"Model: {rule}"):
        nn.Model(**options)


def test_a_label_out_of_range_fails_the_step_and_the_model_stays_usable(tiny):
    model, _ = tiny.make()
    tiny.fill(model)
    model.run()
    model.fill("label", tiny.labels + 1)
    with pytest.raises(KernelError, match=r"cross_entropy: label must be in \[0, 3\), got 3"):
        model.run()
    tiny.fill(model)
    assert np.isfinite(model.run()[0])


def test_a_width_that_the_batch_does_not_determine_is_refused(tiny):
    model = nn.Model()
    with model.guard():
        halves = layers.reshape(model.input("img"), [2, -1])
    model.backward(model.mean(model.fc_layer(halves, 3)))
    model.fill("img", tiny.images)
    with pytest.raises(
        ShapeError, match=r"fc_0_w_param: its shape follows .* got \[\?, 3\]; provide"
    ):
        model.run()


def test_the_error_for_an_input_named_almost_like_a_result_suggests_the_result(tiny):
    model = nn.Model()
    hidden = model.fc_layer("img", 3, name="hidden")
    assert hidden.name == "hidden_out"
    model.backward(model.mean(model.fc_layer("hiden_out", 3)))
    model.fill("img", tiny.images)
    rule = r"'hiden_out'; call model.fill\(.*\); no layer writes it; did you mean 'hidden_out'\?"
    with pytest.raises(FeedError, match=rule):
        model.run()


@pytest.mark.parametrize("declared", [[None, None], [None, 7]])
def test_a_batch_whose_shape_differs_from_the_declared_shape_is_refused(tiny, declared):
    model = nn.Model()
    model.input("img", shape=declared)
    model.backward(model.mean(model.fc_layer("img", 3)))
    model.fill("img", tiny.images.reshape(6, 8, 1) if declared[1] is None else tiny.images)
    before = str(model.program)
    with pytest.raises(FeedError, match=r"feed 'img': must have shape \[\?, .\], got \[\?, 8"):
        model.run()
    assert str(model.program) == before


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Model().fc_layer(input="img", size=3),
        lambda: layers.relu(layers.data("img", shape=[None, 8])),
    ],
    ids=["model", "layers"],
)
def test_without_operators_the_error_of_a_layer_names_the_package_to_install(build, programs):
    text = "(?s)no operator of this type is registered.*pip install opwright-std"
    with ow.context_guard(ow.Context()), pytest.raises(OperatorNotFoundError, match=text):
        build()
