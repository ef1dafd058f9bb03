"""Metrics for classes and numbers, compared with exact cases and with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeValueError, ShapeError

THREE = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
TRUE = np.array([0, 1, 2, 2])


def collected(metric, *arrays, size=3):
    """Return the value of a metric after updates with batches of equal size."""
    for begin in range(0, len(arrays[0]), size):
        metric.update(*(array[begin : begin + size] for array in arrays))
    return metric


def test_scores_of_each_class_match_the_confusion_matrix():
    confusion = collected(nn.metrics.ConfusionMatrix(names=["a", "b", "c"]), THREE, TRUE)
    np.testing.assert_array_equal(confusion.matrix, [[1, 0, 0], [0, 1, 0], [0, 1, 1]])
    assert confusion.result() == 0.75
    assert confusion.per_class() == [
        ("a", 1.0, 1.0, 1.0, 1),
        ("b", 0.5, 1.0, pytest.approx(2 / 3), 1),
        ("c", 1.0, 0.5, pytest.approx(2 / 3), 2),
    ]
    lines = str(confusion).splitlines()
    assert lines[0].split() == ["class", "precision", "recall", "F1", "rows", "predicted", "as"]
    assert lines[2].split() == ["b", "0.500", "1.000", "0.667", "1", "0", "1", "0"]
    assert lines[-1] == "accuracy 0.750"
    confusion.reset()
    assert np.isnan(confusion.result())
    assert confusion.matrix.shape == (0, 0)


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    assert collected(nn.metrics.F1(), THREE, TRUE).result() == pytest.approx((1 + 4 / 3) / 3)
    assert collected(nn.metrics.F1(label=2), THREE, TRUE).result() == pytest.approx(2 / 3)
    binary = np.array([0.9, 0.8, 0.3, 0.1]), np.array([1, 0, 1, 0])
    assert collected(nn.metrics.F1(), *binary).result() == 0.5
    assert collected(nn.metrics.F1(threshold=0.2), *binary).result() == pytest.approx(0.8)


def test_average_precision_is_the_sum_of_precision_weighted_by_recall_steps():
    scores, labels = np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])
    assert collected(nn.metrics.AveragePrecision(), scores, labels).result() == (1 + 2 / 3) / 2
    equal = collected(nn.metrics.AveragePrecision(), np.ones(4), labels)
    assert equal.result() == 0.5
    assert np.isnan(collected(nn.metrics.AveragePrecision(), scores, labels * 0).result())


def test_auc_and_average_precision_of_several_classes_are_means_of_one_versus_rest_values():
    for kind in (nn.metrics.AUC, nn.metrics.AveragePrecision):
        each = [collected(kind(), THREE[:, c], (c == TRUE).astype(int)).result() for c in range(3)]
        assert collected(kind(), THREE, TRUE).result() == pytest.approx(np.mean(each))
        assert collected(kind(label=1), THREE, TRUE).result() == each[1]


def test_regression_errors_are_means_over_all_elements():
    found, wanted = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]]), np.ones((3, 2))
    assert collected(nn.metrics.MSE(), found, wanted, size=2).result() == 94 / 6
    assert collected(nn.metrics.RMSE(), found, wanted).result() == (94 / 6) ** 0.5
    assert collected(nn.metrics.MAE(), found, wanted, size=2).result() == 3.0
    assert np.isnan(nn.metrics.RMSE().result())


def test_a_confusion_matrix_refuses_more_classes_than_names_or_the_maximum():
    with pytest.raises(AttributeValueError, match="at most 2 classes, as there are names, got 3"):
        nn.metrics.ConfusionMatrix(names=["a", "b"]).update(THREE, TRUE)
    with pytest.raises(AttributeValueError, match="at most 4096 classes, got 5000"):
        nn.metrics.ConfusionMatrix().update(np.zeros((1, 5000)), [0])


def test_auc_refuses_batches_with_different_widths():
    area = collected(nn.metrics.AUC(), THREE, TRUE)
    with pytest.raises(ShapeError, match="must have 3 scores per row, .*, got 2; call reset"):
        area.update(THREE[:, :2], [0, 1, 0, 1])


def test_metrics_match_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(0)
    scores = rng.random((500, 4)).round(2)  # with equal scores
    scores /= scores.sum(axis=1, keepdims=True)
    labels = np.where(rng.random(500) < 0.5, scores.argmax(axis=1), rng.integers(0, 4, 500))
    predicted, binary, rare = scores.argmax(axis=1), scores[:, 0], (labels == 3).astype(int)
    second = scores + np.arange(4) * -1e-9  # equal scores are ranked by position
    expected = [
        (nn.metrics.F1(), labels, sklearn.f1_score(labels, predicted, average="macro")),
        (nn.metrics.AUC(), labels, sklearn.roc_auc_score(labels, scores, multi_class="ovr")),
        (nn.metrics.Accuracy(k=2), labels, sklearn.top_k_accuracy_score(labels, second, k=2)),
        (nn.metrics.MAE(), scores[::-1], sklearn.mean_absolute_error(scores, scores[::-1])),
    ]
    for metric, true, value in expected:
        assert collected(metric, scores, true, size=64).result() == pytest.approx(value)
    for metric, function in (
        (nn.metrics.AUC(), sklearn.roc_auc_score),
        (nn.metrics.AveragePrecision(), sklearn.average_precision_score),
    ):
        got = collected(metric, binary, rare, size=64).result()
        assert got == pytest.approx(function(rare, binary))
    confusion = collected(nn.metrics.ConfusionMatrix(), scores, labels, size=64)
    np.testing.assert_array_equal(confusion.matrix, sklearn.confusion_matrix(labels, predicted))
