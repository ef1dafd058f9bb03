"""Metrics."""

from __future__ import annotations

from itertools import permutations

import ml_dtypes
import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError

SCORES = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.5, 0.5]])


@pytest.mark.parametrize("labels", [[1, 0, 0, 0], np.array([[1], [0], [0], [0]])])
def test_accuracy_is_the_fraction_of_correct_rows_and_the_first_of_equal_scores_counts(labels):
    assert nn.metrics.accuracy(SCORES, labels) == 0.75


def test_a_row_with_nan_counts_as_wrong():
    assert nn.metrics.accuracy([[np.nan, 1.0], [1.0, 0.0]], [0, 0]) == 0.5


@pytest.mark.parametrize(
    ("scores", "labels", "rule"),
    [
        (SCORES[0], [1], r"scores must be \[n, classes\].* got shape \[2\]"),
        (np.zeros((0, 2)), np.zeros(0), r".*at least 1, got shape \[0, 2\]"),
        (np.zeros((2, 0)), np.zeros(2), r".*at least 1, got shape \[2, 0\]"),
        (SCORES, [1, 0, 0], r"labels must be \[4\] or \[4, 1\].* got shape \[3\]"),
        (SCORES, np.zeros((1, 4)), r"labels must be \[4\] or \[4, 1\].* got shape \[1, 4\]"),
    ],
)
def test_shapes_that_do_not_match_are_refused(scores, labels, rule):
    with pytest.raises(ShapeError, match=f"metrics.accuracy: {rule}"):
        nn.metrics.accuracy(scores, labels)


RNG = np.random.default_rng(3)
ROWS = RNG.random((50, 4)).round(1)
LABELS = RNG.integers(0, 3, 50)
BINARY = RNG.random(50).round(1)
TRUE = RNG.integers(0, 2, 50)


def collect(metric, scores, labels):
    """Update a metric with batches of 16 rows and a last batch of 2 rows."""
    for begin in range(0, 50, 16):
        metric.update(scores[begin : begin + 16], labels[begin : begin + 16])
    return metric.result()


def test_batches_of_different_sizes_are_weighted_by_their_rows():
    assert collect(nn.metrics.Accuracy(), ROWS, LABELS) == nn.metrics.accuracy(ROWS, LABELS)
    mean = nn.metrics.Mean()
    mean.update(2.0, weight=16)
    mean.update([5.0, 6.0])
    assert mean.result() == (2 * 16 + 11) / 18


def test_accuracy_counts_the_k_highest_scores():
    order = np.argsort(-ROWS, axis=1, kind="stable")
    expected = np.mean([label in row[:2] for label, row in zip(LABELS, order, strict=True)])
    assert collect(nn.metrics.Accuracy(k=2), ROWS, LABELS[:, None]) == expected
    metric = nn.metrics.Accuracy(k=2)
    metric.update([[np.nan, 1.0, 0.0]], [1])
    assert metric.result() == 0


def shares(predicted, true, label):
    """Compute precision and recall of one class by their definitions."""
    right = ((predicted == label) & (true == label)).sum()
    return right / max((predicted == label).sum(), 1), right / max((true == label).sum(), 1)


def test_precision_and_recall_of_two_classes_match_their_definitions():
    expected = shares((BINARY >= 0.7).astype(int), TRUE, 1)
    metrics = nn.metrics.Precision(threshold=0.7), nn.metrics.Recall(threshold=0.7)
    got = [collect(metric, BINARY[:, None], TRUE) for metric in metrics]
    assert got == pytest.approx(expected)


def test_precision_and_recall_are_averaged_over_the_classes_that_occur():
    predicted = ROWS.argmax(axis=1)
    each = [shares(predicted, LABELS, label) for label in range(4)]
    got = [collect(make(), ROWS, LABELS) for make in (nn.metrics.Precision, nn.metrics.Recall)]
    assert got == pytest.approx(np.mean(each, axis=0))
    kinds = nn.metrics.Precision, nn.metrics.Recall
    got = [collect(make(label=2), ROWS, LABELS) for make in kinds]
    assert got == pytest.approx(each[2])
    metric = nn.metrics.Recall()
    metric.update(np.eye(5)[[0, 0]], [0, 3])
    assert metric.result() == 0.5


def test_auc_is_the_fraction_of_correctly_ordered_pairs():
    high, low = BINARY[TRUE == 1][:, None], BINARY[TRUE == 0]
    expected = ((high > low) + 0.5 * (high == low)).mean()
    assert collect(nn.metrics.AUC(), BINARY, TRUE) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["AUC", "Accuracy", "Mean", "Precision", "R2", "Recall"])
def test_a_reset_discards_all_batches(kind):
    metric = getattr(nn.metrics, kind)()
    assert np.isnan(metric.result())
    batch = {"Mean": ([1.0, 3.0],), "Accuracy": (ROWS, LABELS)}.get(kind, (BINARY, TRUE))
    metric.update(*batch)
    once = metric.result()
    assert repr(metric) == f"{kind}({once:.6g})"
    metric.reset()
    metric.update(*batch)
    assert metric.result() == once


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (lambda m: m.AUC().update(ROWS[None], LABELS), ShapeError, r"\[n, 1\] or \[n, classes\]"),
        (
            lambda m: m.AUC().update(BINARY, LABELS),
            AttributeValueError,
            r"integers in \[0, 2\)",
        ),
        (lambda m: m.AUC().update(BINARY, TRUE[:3]), ShapeError, r"labels must be \[50\]"),
        (lambda m: m.Recall().update(BINARY, TRUE - 1), AttributeValueError, "integers"),
        (lambda m: m.Recall().update(BINARY, TRUE + 0.5), AttributeValueError, "integers"),
        (lambda m: m.Accuracy(k=0), AttributeValueError, "k must be an int of at least 1"),
        (lambda m: m.R2().update(BINARY, TRUE[:, None]), ShapeError, r"predictions, \[50\], got"),
        (lambda m: m.Precision(label=-1), AttributeValueError, "label must be an int of at least"),
        (lambda m: m.Mean().update(1, weight=-1), AttributeValueError, "weight must be"),
    ],
)
def test_the_error_names_a_bad_batch_or_option(call, error, rule):
    with pytest.raises(error, match=rf"^metrics\.\w+: .*{rule}"):
        call(nn.metrics)


@pytest.mark.parametrize("offset", [0, 1e6])
def test_r2_is_one_minus_squared_errors_over_the_variance_of_all_targets(offset):
    rng = np.random.default_rng(4)
    targets = offset + rng.standard_normal(50) + np.arange(50) / 10  # batches have different means
    predictions = targets + 0.5 * rng.standard_normal(50)
    expected = 1 - np.mean((targets - predictions) ** 2) / np.var(targets)
    assert collect(nn.metrics.R2(), predictions, targets) == pytest.approx(expected, rel=1e-9)
    mean = np.full(50, targets.mean())
    assert collect(nn.metrics.R2(), mean, targets) == pytest.approx(0, abs=1e-9)
    metric = nn.metrics.R2()
    metric.update([], [])
    metric.update([1.0, 2.0], [3.0, 3.0])
    assert np.isnan(metric.result())


def test_auc_is_nan_until_both_classes_occur():
    metric = nn.metrics.AUC()
    metric.update([0.1, 0.2], [1, 1])
    assert np.isnan(metric.result())
    metric.update([0.0], [0])
    assert metric.result() == 1


def test_a_metric_accepts_variable_names_but_not_arrays():
    assert nn.metrics.Accuracy("prob", "label").variables == ("prob", "label")
    assert nn.metrics.Accuracy(k=2).variables == ()
    with pytest.raises(
        AttributeTypeError, match=r"^Recall: variables must be .* pass arrays to up"
    ):
        nn.metrics.Recall(np.ones(3))


DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES += ("float16", "float32", "float64", "bfloat16")


def rows_of(dtype):
    """Return every permutation of four numbers, including the smallest and largest of the dtype.

    Also return the position of the largest number in each permutation.
    """
    if dtype == "bool":
        values = np.array([False, True])
    elif dtype == "bfloat16":
        values = np.array([-3e38, 1, 2, 3e38]).astype(ml_dtypes.bfloat16)
    else:
        info = np.iinfo(dtype) if "int" in dtype else np.finfo(dtype)
        values = np.array([info.min, 1, 2, info.max], dtype)
    places = np.array(list(permutations(range(len(values)))))
    return values[places], places.argmax(axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_are_ordered_by_value_in_every_dtype(dtype):
    rows, best = rows_of(dtype)
    assert nn.metrics.accuracy(rows, best) == 1
    assert nn.metrics.accuracy(rows, (best + 1) % rows.shape[1]) == 0
    for kind in ("Accuracy", "Precision", "Recall"):
        metric = getattr(nn.metrics, kind)()
        metric.update(rows, best)
        assert metric.result() == 1
    area = nn.metrics.AUC()
    area.update(rows.max(axis=1), np.zeros(len(rows), int))
    area.update(rows.min(axis=1), np.ones(len(rows), bool))
    assert area.result() == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k_accuracy_counts_exactly_k_scores_in_every_dtype(dtype):
    rows, _ = rows_of(dtype)
    n = rows.shape[1]
    for k in range(1, n + 2):
        metric = nn.metrics.Accuracy(k=k)
        metric.update(rows, np.zeros(len(rows), "uint8"))
        assert metric.result() == pytest.approx(min(k, n) / n)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if "uint" in name or name == "bool"])
def test_differences_of_unsigned_integers_can_be_negative(dtype):
    r2, mean = nn.metrics.R2(), nn.metrics.Mean()
    r2.update(np.array([0, 1], dtype), np.array([1, 0], dtype))
    mean.update(np.ones(300, dtype))
    assert (r2.result(), mean.result()) == (-3, 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_is_never_a_high_score(dtype):
    scores = np.array([[0, 1], [np.nan, 1]], dtype)
    assert nn.metrics.accuracy(scores, [1, 0]) == 0.5
    assert nn.metrics.accuracy(scores, [1, 1]) == 0.5
    for kind in ("Precision", "Recall"):
        with pytest.raises(AttributeValueError, match=r"must not be NaN, .*, got nan in row 1"):
            getattr(nn.metrics, kind)().update(scores, [1, 0])
        with pytest.raises(AttributeValueError, match=r"must not be NaN, .*, got nan in row 1"):
            getattr(nn.metrics, kind)().update(scores[:, 0], [1, 0])
    with pytest.raises(AttributeValueError, match=r"^metrics\.AUC: .* got nan in row 1; find"):
        nn.metrics.AUC().update(scores[:, 0], [1, 0])


def test_nan_and_infinity_propagate_to_a_mean_and_r2():
    for value, expected in ((np.nan, np.nan), (np.inf, np.inf)):
        mean = nn.metrics.Mean()
        mean.update([1.0, value])
        np.testing.assert_equal(mean.result(), expected)
        mean.reset()
        mean.update(value, weight=0)
        mean.update(2)
        assert mean.result() == 2
    for predictions, targets in (
        ([np.nan, 1], [1, 2]),
        ([1, 2], [np.nan, 1]),
        ([1, 2], [np.inf, 1]),
    ):
        r2 = nn.metrics.R2()
        r2.update(predictions, targets)
        assert np.isnan(r2.result())
    r2.reset()
    r2.update([np.inf, 1], [1, 2])
    assert r2.result() == -np.inf


ALL = ("AUC", "Accuracy", "Precision", "R2", "Recall")


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "scores",
    [
        [["1", "0"]],
        [[1j, 0]],
        [[None, 1]],
        [[1, 2], [1]],
        [{}],
        np.array([["2020-01-01"]], "M8[D]"),
    ],
    ids=["text", "complex", "none", "ragged", "dict", "date"],
)
def test_scores_that_are_not_numbers_are_refused(kind, scores):
    with pytest.raises(AttributeTypeError, match=rf"^metrics\.{kind}: .* an array of numbers, got"):
        getattr(nn.metrics, kind)().update(scores, [0] * len(scores))
    with pytest.raises(AttributeTypeError, match=r"^metrics\.Mean: value must be an array of num"):
        nn.metrics.Mean().update(scores)


@pytest.mark.parametrize("kind", ["Accuracy", "Precision", "Recall"])
@pytest.mark.parametrize(
    "label", [-1, 2, 0.5, np.nan, np.inf, 2**40, 2.0**70], ids=lambda label: f"{label:g}"
)
def test_labels_must_be_classes_of_the_scores(kind, label):
    for dtype in (None, "float64"):
        with pytest.raises(AttributeValueError, match=r"integers in \[0, 2\), .*, got"):
            getattr(nn.metrics, kind)().update([[0.0, 1.0]], np.array([label], dtype))
    with pytest.raises(AttributeValueError, match=r"integers in \[0, 2\), .*, got"):
        nn.metrics.AUC().update([0.5], [label])


def test_labels_of_every_dtype_are_accepted():
    for dtype in DTYPES[:-1]:
        assert nn.metrics.accuracy([[0.0, 1.0], [1.0, 0.0]], np.array([1, 0], dtype)) == 1
    for labels in (["1"], [None], [1j]):
        with pytest.raises(AttributeTypeError, match="labels must be an array of numbers, got"):
            nn.metrics.accuracy([[0.0, 1.0]], labels)


def test_scores_are_kept_when_their_array_changes_later():
    scores, metric = np.array([0.1, 0.9]), nn.metrics.AUC()
    metric.update(scores, [0, 1])
    scores[:] = scores[::-1]
    assert metric.result() == 1


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("scores", [1.0, np.zeros((2, 2, 2)), np.zeros((2, 1, 1))])
def test_scores_with_a_wrong_number_of_axes_are_refused(kind, scores):
    with pytest.raises(ShapeError, match=rf"^metrics\.{kind}: (scores|targets) must"):
        getattr(nn.metrics, kind)().update(scores, [0, 1])
