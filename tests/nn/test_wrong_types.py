"""Arguments of a wrong type raise one error, which names the function and the argument."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FeedError,
    OpwrightError,
    ProgramError,
)
from opwright_nn import datasets, layers

SCALAR = np.array(3)


@pytest.fixture
def model():
    """A model of one layer, its scores, and arrays to train it."""
    model = nn.Model()
    scores = model.fc_layer("img", size=3)
    loss = model.mean(model.softmax_with_cross_entropy(scores, "label"))
    model.backward(loss)
    model.sgd(learning_rate=0.1)
    images, labels = np.zeros((4, 2), "float32"), np.zeros((4, 1), "int64")
    model.initialize_parameters(img=images, seed=1)
    return model, (images, labels)


@pytest.fixture
def block():
    """The global block of a new program."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        yield main.global_block()


@pytest.mark.parametrize("activation", [np.zeros(2), SCALAR, ["relu"]], ids=repr)
def test_an_activation_must_be_a_string(block, activation):
    with pytest.raises(AttributeTypeError, match="^fc: activation must be a string, got"):
        layers.fc(layers.data("x", [None, 2]), 3, activation=activation)


def test_a_zero_dimensional_array_is_not_accepted_as_a_list(block, model):
    x, y = layers.data("x", [None, 2]), layers.data("y", [None, 1], "int64")
    for call, rule in [
        (lambda: layers.data("z", SCALAR), "data: shape must be a list of ints"),
        (lambda: layers.reshape(x, SCALAR), "reshape: shape must be a list of ints"),
        (
            lambda: layers.cross_entropy(x, y, class_weights=SCALAR),
            "cross_entropy: class_weights must be a list of numbers",
        ),
        (lambda: nn.mixed_precision(float32=SCALAR), "mixed_precision: float32 must be a list"),
        (
            lambda: nn.train(model[0], model[1], 1, callbacks=SCALAR),
            "train: callbacks must be a list of callbacks",
        ),
    ]:
        with pytest.raises(AttributeTypeError, match=f"^{rule}"):
            call()


@pytest.mark.parametrize("shape", [{2, 3}, frozenset([6]), {2: "x", 3: "y"}], ids=repr)
def test_an_unordered_collection_is_not_accepted_as_a_list(block, shape):
    x = layers.data("x", [2, 3])
    for call, rule in [
        (lambda: layers.data("z", shape), "data: shape must be a list of ints"),
        (lambda: layers.reshape(x, shape), "reshape: shape must be a list of ints"),
        (lambda: layers.transpose(x, shape), "transpose: axes must be a list of ints"),
        (lambda: layers.concat({x}), "concat: input must be a list of variables"),
        (lambda: nn.create_parameter(shape), "create_parameter: shape must be a list"),
    ]:
        with pytest.raises(AttributeTypeError, match=f"^{rule}"):
            call()


def test_a_layer_name_that_cannot_be_encoded_is_refused(block):
    x = layers.data("x", [None, 3, 8, 8])
    for append in (layers.flatten, partial(layers.max_pool2d, kernel=2), layers.relu):
        with pytest.raises(ProgramError, match=r"a name must be .* surrogates, got 'a\\ud800_out'"):
            append(x, name="a\ud800")
    assert list(block.vars) == ["x"]


@pytest.mark.parametrize("axis", [-3, 2, -(2**63), 2**63 - 1])
def test_the_class_axis_must_be_an_axis_of_the_scores(block, axis):
    x, y = layers.data("x", [None, 2]), layers.data("y", [None, 1], "int64")
    with pytest.raises(OpwrightError, match="softmax_with_cross_entropy: axis must be in"):
        layers.softmax_with_cross_entropy(x, y, axis=axis)


@pytest.mark.parametrize("name", [["img"], {}, np.zeros(2), None], ids=repr)
def test_the_name_of_an_input_to_fill_must_be_a_string(model, name):
    with pytest.raises(FeedError, match="^Model.fill: the name must be the name of an input"):
        model[0].fill(name, model[1][0])


@pytest.mark.parametrize("value", [3, "img", ["img"], np.zeros(2), SCALAR], ids=repr)
def test_mappings_must_be_dicts(model, tmp_path, value):
    program = model[0].program
    for call, rule in [
        (lambda: nn.summary(model[0], shapes=value), "summary: shapes"),
        (lambda: nn.find_nan(model[0], value), "find_nan: feeds"),
        (lambda: nn.find_nan(program, value), "find_nan: feeds"),
        (lambda: nn.TensorBoard(tmp_path, images=value), "TensorBoard: images"),
    ]:
        with pytest.raises(AttributeTypeError, match=f"^{rule} must be a dict, got .*; write"):
            call()


@pytest.mark.parametrize("value", [3, "cat", SCALAR, int], ids=repr)
def test_class_names_must_be_a_list(value):
    with pytest.raises(AttributeTypeError, match="^ConfusionMatrix: names must be a list of names"):
        nn.metrics.ConfusionMatrix(names=value)


def test_inference_program_requires_a_program_and_a_list_of_names(model):
    with pytest.raises(AttributeTypeError, match="^inference_program: program must be a Program"):
        nn.inference_program(model[0], "fc_0_out")
    with pytest.raises(AttributeTypeError, match="^inference_program: given must be a list of"):
        nn.inference_program(model[0].program, "fc_0_out", "img")


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("a\0b", "have at least one character and none that is NUL"),
        (3, "be a str or a path, got 3"),
    ],
)
def test_a_path_must_be_a_valid_file_path(path, rule):
    history = nn.History()
    for call, argument in [
        (partial(datasets.csv.read, label="y"), "csv.read: path"),
        (datasets.csv.read_columns, "csv.read_columns: path"),
        (datasets.idx.read, "idx.read: path"),
        (datasets.text.read_lines, "text.read_lines: path"),
        (lambda path: datasets.cifar.read([path]), r"cifar.read: paths\[0\]"),
        (datasets.image_folder.find, "image_folder.find: folder"),
        (datasets.image_folder.decode, "image_folder.decode: path"),
        (datasets.ratings.read_movielens, "ratings.read_movielens: folder"),
        (history.plot, "History.plot: path"),
        (history.write_csv, "History.write_csv: path"),
        (history.write_tensorboard, "History.write_tensorboard: folder"),
        (nn.TensorBoard, "TensorBoard: folder"),
        (nn.Checkpoint, "Checkpoint: folder"),
    ]:
        with pytest.raises(OpwrightError, match=f"^{argument} must {rule}"):
            call(path)


def test_the_tensorboard_folder_must_be_a_path():
    with pytest.raises(AttributeTypeError, match="^TensorBoard: folder must be a str or a path"):
        nn.TensorBoard(None)


def test_the_mode_of_a_checkpoint_requires_best(tmp_path):
    with pytest.raises(AttributeValueError, match="^Checkpoint: mode belongs to best, got mode="):
        nn.Checkpoint(tmp_path, mode="mni")


def test_a_function_that_provides_batches_must_return_an_iterable(model):
    rule = "^train: a function of batches must return an iterable, got 1"
    with pytest.raises(AttributeTypeError, match=rule):
        nn.train(model[0], lambda: 1, 1, progress=False)
