"""Classification losses: weights, ignored classes, smoothing, reduction; see also tests/peers."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import layers

RNG = np.random.default_rng(2)
SCORES = RNG.normal(size=(6, 4)).astype(np.float32)
PROBABILITIES = np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True)
LABELS = np.array([3, 0, 1, 1, 2, 0])
WEIGHTS = np.array([1.0, 0.5, 2.0, 4.0])
ROWS = -np.log(PROBABILITIES[np.arange(6), LABELS])


def compute(kind, label=LABELS, **options):
    """Return a loss, computed by a model from scores or from probabilities."""
    model = nn.Model()
    x = SCORES if kind == "softmax_with_cross_entropy" else PROBABILITIES
    dtype = "float32" if options.get("soft_label") else "int64"
    model.input("label", None, dtype)
    return model.predict(getattr(model, kind)("x", "label", **options), x=x, label=label)


KINDS = pytest.mark.parametrize("kind", ["softmax_with_cross_entropy", "cross_entropy"])


@KINDS
@pytest.mark.parametrize("column", [False, True])
def test_labels_can_have_a_last_axis_of_1(kind, column):
    label, expected = (LABELS[:, None], ROWS[:, None]) if column else (LABELS, ROWS)
    np.testing.assert_allclose(compute(kind, label), expected, rtol=1e-5)
    weighted = compute(kind, label, class_weights=WEIGHTS)
    np.testing.assert_allclose(weighted, expected * WEIGHTS[label], rtol=1e-5)
    total = compute(kind, label, class_weights=WEIGHTS, reduction="mean")
    mean = (ROWS * WEIGHTS[LABELS]).sum() / WEIGHTS[LABELS].sum()
    np.testing.assert_allclose(total, mean, rtol=1e-5)


@KINDS
@pytest.mark.parametrize("more", [{}, {"class_weights": [1, 1, 1, 1]}])
def test_ignored_rows_do_not_count_in_a_mean(kind, more):
    rows = compute(kind, ignore_index=1, **more)
    np.testing.assert_allclose(rows, np.where(LABELS == 1, 0, ROWS), rtol=1e-5)
    mean = compute(kind, ignore_index=1, reduction="mean", **more)
    np.testing.assert_allclose(mean, ROWS[LABELS != 1].mean(), rtol=1e-5)
    everything = np.ones(6, np.int64)
    assert compute(kind, everything, ignore_index=1, reduction="mean", **more) == 0


@KINDS
def test_smoothing_spreads_probability_over_all_classes(kind):
    target = 0.8 * np.eye(4)[LABELS] + 0.2 / 4
    expected = -(target * np.log(PROBABILITIES) * WEIGHTS).sum(axis=1)
    options = {"label_smoothing": 0.2, "class_weights": WEIGHTS}
    np.testing.assert_allclose(compute(kind, **options), expected, rtol=1e-5)
    hot = np.eye(4, dtype=np.float32)[LABELS]
    soft = compute(kind, hot, soft_label=True, **options)
    np.testing.assert_allclose(soft[:, 0], expected, rtol=1e-5)
    soft = compute(kind, hot, soft_label=True, reduction="sum", **options)
    np.testing.assert_allclose(soft, expected.sum(), rtol=1e-5)


def test_positive_weight_multiplies_the_loss_where_the_label_is_one():
    model = nn.Model()
    loss = model.sigmoid_cross_entropy_with_logits("x", "label", positive_weight=3.0)
    label = RNG.integers(0, 2, (6, 4)).astype(np.float32)
    s = 1 / (1 + np.exp(-SCORES.astype(float)))
    expected = -3 * label * np.log(s) - (1 - label) * np.log(1 - s)
    np.testing.assert_allclose(model.predict(loss, x=SCORES, label=label), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "rule"),
    [
        (
            {"class_weights": [1, 2]},
            AttributeValueError,
            "class_weights must have .* 4 classes, got 2",
        ),
        ({"class_weights": 2.0}, AttributeTypeError, "class_weights must be a list of numbers"),
        ({"class_weights": [1, 1, 1, -1]}, AttributeValueError, r"class_weights\[3\] must be"),
        ({"label_smoothing": 1.5}, AttributeValueError, "label_smoothing must be a finite number"),
        ({"reduction": "average"}, AttributeValueError, "reduction must be one of 'none', 'mean'"),
        ({"ignore_index": 0.5}, AttributeTypeError, "ignore_index must be an int"),
        ({"soft_label": 1}, AttributeTypeError, "soft_label must be True or False"),
    ],
)
@KINDS
def test_the_error_names_a_bad_option_and_nothing_changes(
    programs, snapshot, kind, options, error, rule
):
    x, label = layers.data("x", [None, 4]), layers.data("label", [None], "int64")
    before = snapshot()
    with pytest.raises(error, match=f"{kind}: {rule}"):
        getattr(layers, kind)(x, label, **options)
    assert snapshot() == before


def test_class_weights_along_an_axis_require_a_known_number_of_axes(programs):
    with pytest.raises(ShapeError, match="number of axes must be known for axis=1"):
        layers.softmax_with_cross_entropy(
            layers.data("x"), layers.data("label"), axis=1, class_weights=WEIGHTS
        )
