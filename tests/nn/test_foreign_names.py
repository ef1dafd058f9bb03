"""Errors for names and conventions of other frameworks suggest ours."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    FeedError,
    ProgramError,
    ShapeError,
)
from opwright_nn.foreign_names import (
    CLIPS,
    DATASETS,
    INITIALIZERS,
    LAYERS,
    METHODS,
    METRICS,
    NAMES,
    SCHEDULES,
)

MODULES = {
    nn.clip: CLIPS,
    nn.datasets: DATASETS,
    nn.initializer: INITIALIZERS,
    nn.metrics: METRICS,
    nn.schedule: SCHEDULES,
}

X = np.ones((6, 4), np.float32)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fit", r"Model: .*'fit'; write nn.train\(model, "),
        ("compile", r"write model.minimize\(loss, "),
        ("max_pool2", "got 'max_pool2'; did you mean 'max_pool2d'?"),
        ("softsign", r"got 'softsign'; write ow.ops.softsign\(x\), which takes"),
        ("global_avg_pool2d", r"write model.flatten\(model.adaptive_avg_pool2d\(x, 1\)\)"),
        ("xyzxyz", "got 'xyzxyz'$"),
    ],
)
def test_the_error_for_a_method_of_another_framework_suggests_our_method(name, text):
    with pytest.raises(AttributeError, match=text):
        getattr(nn.Model(), name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Sequential", r"opwright_nn: .*'Sequential'; write nn.Model\(\)"),
        ("ModelCheckpoint", "write nn.Checkpoint"),
        ("EarlyStoping", "did you mean 'EarlyStopping'"),
    ],
)
def test_the_error_for_a_name_of_another_framework_suggests_our_name(name, text):
    with pytest.raises(AttributeError, match=text):
        getattr(nn, name)


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        (nn.layers, "softsign", r"opwright_nn.layers: .*; write ow.ops.softsign\(x\)"),
        (nn.layers, "Dense", r"write layers.fc\(x, 64\)$"),
        (nn.layers, "conv2", r"did you mean 'conv\dd'\?"),
        (nn.optimizer, "AdaGrad", r"opwright_nn.optimizer: .*; did you mean 'Adagrad'\?"),
        (nn.schedule, "ExponentialLR", r"write nn.Schedule\(lambda t: 0.1 \* 0.99\*\*t\)"),
        (nn.schedule, "cosin", r"did you mean 'cosine'\?"),
        (nn.metrics, "F1Score", r"write nn.metrics.F1\(scores, 'label'\)"),
        (nn.initializer, "GlorotUniform", r"write nn.initializer.Xavier\(\)"),
        (nn.regularizer, "l2", r"did you mean 'L2'\?"),
        (nn.clip, "clip_grad_norm_", r"write nn.clip.ClipByGlobalNorm\(1.0\)"),
        (nn.datasets, "mnist", r"write nn.datasets.digits.load\(\)"),
        (nn.datasets, "digit", r"did you mean 'digits'\?"),
        (nn.datasets, "__path_of_nothing__", "got '__path_of_nothing__'$"),
    ],
)
def test_the_error_for_a_name_of_another_framework_in_a_module_suggests_our_name(
    module, name, text
):
    with pytest.raises(AttributeError, match=text):
        getattr(module, name)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_has_no_hint_for_an_existing_name(module):
    assert not [name for name in MODULES[module] if hasattr(module, name)]


def test_hints_are_only_for_missing_names_and_suggest_existing_names():
    assert not [name for name in METHODS if hasattr(nn.Model, name)]
    assert not [name for name in NAMES if hasattr(nn, name)]
    roots = {"nn": nn, "model": nn.Model(), "ow": ow, "layers": nn.layers}
    for answer in (
        answer for names in (METHODS, NAMES, LAYERS, *MODULES.values()) for answer in names.values()
    ):
        paths = re.findall(r"\b(nn|model|ow|layers)\.([A-Za-z_.0-9]*[A-Za-z_0-9])", answer)
        assert paths, answer
        for root, path in paths:
            value = roots[root]
            for part in path.split("."):
                value = getattr(value, part)


def test_copies_and_hasattr_still_work():
    model = nn.Model()
    model.relu(model.input("x", [None, 4]))
    assert not hasattr(model, "fit")
    assert copy.deepcopy(model).program is not model.program
    assert len(pickle.loads(pickle.dumps(model)).program.global_block().ops) == 1


def regression():
    model = nn.Model()
    out = model.fc_layer("x", 1)
    model.minimize(model.mse(out, "y", reduction="mean"), nn.optimizer.SGD(0.1))
    return model, out


def test_the_error_for_two_array_arguments_suggests_a_tuple():
    for options in ({"epochs": 1}, {}):
        with pytest.raises(AttributeTypeError, match=r"write nn.train\(model, \(x, y\), epochs="):
            nn.train(regression()[0], X, X[:, :1], **options)


def test_the_error_for_data_with_a_wrong_dtype_suggests_a_conversion():
    with pytest.raises(FeedError, match=r"^train: 'x': .*float64; pass np.asarray\(x, 'float32'"):
        nn.train(regression()[0], (X.astype(np.float64), X[:, :1]), 1)


def test_the_error_for_images_with_channels_last_suggests_a_data_format():
    model = nn.Model()
    scores = model.conv2d("img", filters=2, kernel=3)
    with pytest.raises(ShapeError, match=r"padded width, .*, or set data_format='NHWC' if the ch"):
        model.initialize_parameters(img=np.zeros((2, 8, 8, 1), np.float32))
    model.initialize_parameters(img=np.zeros((2, 1, 9, 8), np.float32))
    with pytest.raises(FeedError, match=r"pass img.transpose\(0, 3, 1, 2\), .*data_format='NHWC'"):
        model.predict(scores, img=np.zeros((2, 9, 8, 1), np.float32))


def test_the_error_for_a_fraction_in_a_list_of_integer_labels_names_the_fraction():
    model = nn.Model()
    loss = model.softmax_with_cross_entropy(model.fc_layer("x", 3), "y", reduction="mean")
    model.minimize(loss, nn.optimizer.SGD(0.1))
    with pytest.raises(FeedError, match="'y': must be an integer to become int64, got 0.5"):
        nn.train(model, ([[1.0, 2.0]], [0.5]), 1)


def test_the_error_for_calling_predict_with_an_array_names_the_inputs():
    with pytest.raises(AttributeTypeError, match=r"an array \[6, 4\]; pass arrays by the names"):
        regression()[0].predict(X)


def test_the_error_for_training_without_a_loss_names_the_missing_call():
    model = nn.Model()
    model.fc_layer("x", 1)
    with pytest.raises(ProgramError, match=r"call model.minimize\(loss, optimizer\) first"):
        nn.train(model, (X,), 1)


def test_the_error_for_a_label_without_columns_suggests_a_reshape():
    with pytest.raises(ShapeError, match=r"got \[.\]; reshape it: label.reshape\(-1, 1\)"):
        nn.train(regression()[0], (X, X[:, 0]), 1)


def test_the_error_for_one_hot_labels_suggests_class_ids_or_soft_labels():
    model = nn.Model()
    scores = model.fc_layer("x", 3)
    model.minimize(
        model.softmax_with_cross_entropy(scores, "y", reduction="mean"), nn.optimizer.SGD(0.1)
    )
    one_hot = np.eye(3, dtype=np.int64)[[0, 1, 2, 0, 1, 2]]
    with pytest.raises(ShapeError, match=r"pass class ids, label.argmax\(.*soft_label=True"):
        nn.train(model, (X, one_hot), 1)
    with pytest.raises(FeedError, match=r"must be int64, got float32; .* rows y.argmax\(-1\), or"):
        nn.train(model, (X, one_hot.astype(np.float32)), 1)


def test_the_repr_names_the_class():
    assert repr(nn.optimizer.Adam(0.1)).startswith("Adam(learning_rate=0.1, beta1=0.9")
    assert repr(nn.optimizer.SGD(nn.schedule.cosine(0.2, steps=9))) == (
        "SGD(learning_rate=Schedule(0.2 in the first step))"
    )
    assert (
        repr(nn.batches((X,), size=4, epochs=3)) == "Batches(6 rows in batches of 4, 3 epochs of 2)"
    )


def test_the_learning_rate_can_be_assigned_at_any_time():
    model = regression()[0]
    model.learning_rate = 0.5
    model.fill("x", X)
    model.fill("y", X[:, :1])
    model.run()
    assert model.learning_rate == 0.5
    model.learning_rate = 0.25
    model.run()
    assert model.learning_rate == 0.25


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (
            lambda: nn.optimizer.Adam(clip=1.0),
            "clip must be a GradientClip or None, .*; create one of ClipByGlobalNorm, ClipByNorm,",
        ),
        (lambda: nn.optimizer.Adam(regularizer=0.1), "create one of .*L2"),
        (
            lambda: nn.optimizer.Adam(weight_decay=0.1),
            r"Adam: .*'weight_decay'; write nn.optimizer.AdamW\(.*, or regularizer=nn.reg",
        ),
        (lambda: nn.optimizer.SGD(0.1, weight_decay=0.1), "SGD: .*, or regularizer=nn.reg"),
        (lambda: nn.ParamAttr(initializer="xavier"), "create one of Constant, .*Xavier"),
        (
            lambda: regression()[0].optimize(nn.optimizer.SGD),
            r"optimizer must be an Optimizer, .*; call it: SGD\(\)",
        ),
    ],
)
def test_the_error_for_an_object_of_a_wrong_class_lists_the_known_classes(build, text):
    with pytest.raises(AttributeTypeError, match=text):
        build()
